"""Executors that run steps with a model."""
