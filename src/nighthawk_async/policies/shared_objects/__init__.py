"""Detects when a step changes an object that another step in flight has bound."""
