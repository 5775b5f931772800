"""Policies of the library: what `nighthawk_async.run` and `scope` take as arguments."""
