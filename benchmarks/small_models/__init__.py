"""Texts whose values are known, in six languages, and blocks that ask a small model for them."""
