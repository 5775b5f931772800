"""What tests of sandboxes need."""

from tests.sandbox_pool import monty_was_used

__all__ = ["monty_was_used"]
