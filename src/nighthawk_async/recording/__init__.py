"""Recorded exchanges with models, and their replay. Floor 4. Cassettes of tests are made of it."""
