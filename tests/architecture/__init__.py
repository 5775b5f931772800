"""The structure of the house as tests: floors, exports, sizes, dependencies."""
