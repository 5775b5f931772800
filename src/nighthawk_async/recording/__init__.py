"""Recorded exchanges with models, and their replay. Cassettes of tests are made of it."""
