"""Budgets: what may be spent, reserved before it is. Floor 3."""
