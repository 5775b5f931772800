"""Compaction of conversations that would outgrow the context of their model."""
