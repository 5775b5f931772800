"""Words that stand where a protocol needs some and the conversation has none."""

__all__ = ["NO_TEXT"]

NO_TEXT = "[no text]"
"""Stands for a text that is empty, where the endpoint refuses an empty one."""
