"""Benchmarks of nighthawk-async: `python -m benchmarks`. Not part of the distribution's wheel."""
