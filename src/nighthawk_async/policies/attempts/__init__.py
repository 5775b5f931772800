"""Attempts at steps and calls: when there is another one, and with which model."""
