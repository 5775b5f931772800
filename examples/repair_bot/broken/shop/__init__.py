"""A shop with a bug in two files."""
