"""The model server that the benchmarks talk to: a process of its own that answers fast and counts.

It is no test double for all that providers do; `nighthawk_async.testing.ModelServer` is.
"""
