"""Noticing when one step changes what another step in flight has bound."""
