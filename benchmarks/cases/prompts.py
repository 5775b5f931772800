"""What a model is shown of blocks that users write. `python -m benchmarks prompts` has the tables."""

from collections.abc import Mapping

import anyio

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]


def show_blocks(operations: int) -> Mapping[str, float]:
    """Measure all blocks once, however many operations are asked for: nothing in it varies."""
    from ..prompts.blocks import BLOCKS  # here: whoever lists benchmarks need not wait for fifty decorations
    from ..prompts.measuring import measure_blocks

    measured = anyio.run(measure_blocks, BLOCKS)
    return {
        "prompt_tokens": sum(each.tokens for each in measured) / len(measured),
        "facts_missing": sum(len(each.missing) for each in measured),
        "round_trips": sum(each.round_trips for each in measured) / len(measured),
        "errors": sum(each.failure is not None for each in measured),
    }


BENCHMARKS = (
    Benchmark(
        name="prompts",
        what="the first request of a block, on the average of fifty kinds",
        run=show_blocks,
        operations=1,
        quick_operations=1,
        rounds=1,
        is_warmed_up=False,
    ),
)
