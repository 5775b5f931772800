"""Executors that run steps with a model. Floor 4."""
