"""How well and how fast a memory recalls: `python -m benchmarks.recall`."""
