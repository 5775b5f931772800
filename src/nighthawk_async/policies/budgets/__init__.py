"""Budgets: what may be spent, reserved before it is."""
