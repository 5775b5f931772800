"""What carries steps out with a model. Floor 4."""
