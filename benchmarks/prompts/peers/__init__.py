"""The same tasks as agents written by hand for pydantic-ai: what a good engineer would write without blocks.

Inputs stand in the user prompt, results have an output type, functions are tools. It runs in the peer's
environment, `python -m benchmarks.prompts.peers`, which has nothing of this project installed.
"""
