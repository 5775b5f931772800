"""Recording and replay of exchanges with models, for the cassettes of tests."""
