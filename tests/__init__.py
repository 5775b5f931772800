"""Tests. Their helpers are imported as `tests.…`."""
