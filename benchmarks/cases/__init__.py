"""The benchmarks. Each module here has a tuple `BENCHMARKS`; the modules are found by their presence."""
