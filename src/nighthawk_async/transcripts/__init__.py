"""Transcripts of steps: whole conversations with a model, as values and as files."""
