"""The function library."""
