"""Budgets: limits of consumption, reserved before it happens."""
