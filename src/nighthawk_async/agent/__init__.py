"""The model loop: the task of a step, its answers, its tools, its model calls."""
