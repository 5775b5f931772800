"""Policies of the library, which `nighthawk_async.run` and `scope` take as arguments."""
