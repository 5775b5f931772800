"""Attempts at steps and calls: conditions, waits and models of retries and fallbacks."""
