"""The case `prompts`: blocks of the kinds that users write, and what a model is shown of each.

- `data` has the types, inputs and functions of the blocks. It imports nothing of this project, so that the
  peers share it.
- `blocks` has the natural functions, each with a checker, the facts that an answer needs, and the answer of a
  reader who makes no mistake.
- `peers` has an agent written by hand for pydantic-ai for each block.

`python -m benchmarks prompts` measures them; see `command`.
"""
