"""The documentation as tests: every example runs, every page has its place."""
