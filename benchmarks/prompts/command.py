"""`python -m benchmarks prompts`: what the first request of each block shows and costs.

python -m benchmarks prompts                          all blocks, and the perfect reader
python -m benchmarks prompts invoice table            the blocks whose name contains one of the words
python -m benchmarks prompts --peers                  capture anew what pydantic-ai sends
python -m benchmarks prompts --docs                   write the tables into docs/performance.md and blocks.md
python -m benchmarks prompts --show nested-invoice    print the first request of a block
python -m benchmarks prompts --show --old table       the same in the old form, for comparison
python -m benchmarks prompts --model provider:name    the same blocks on a real model

The exit status is 1 when the perfect reader was not right, or the peer could not be captured. What a real
model gets wrong is counted, and does not change the status.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

import nighthawk_async as nh

from ..measure import CannotMeasureHereError
from .block import Block
from .blocks import BLOCKS
from .measuring import DEFAULT, OLD, WITHOUT_TOOLS, first_request, measure_blocks
from .peer_tokens import capture, digest_of_sources, read_peer_tokens
from .sent import PROVIDERS
from .tables import (
    Grid,
    as_markdown,
    goals_of,
    grid_of_corrections,
    grid_of_measured,
    grid_of_parts,
    grid_of_providers,
    grid_of_sizes,
    grid_of_tools,
    grid_of_tried,
)
from .trial import Tried, try_blocks

__all__ = ["main", "print_grid"]

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
EACH = Path(__file__).parent / "blocks.md"
BEGIN, END = "<!-- prompts: begin -->\n", "<!-- prompts: end -->\n"


def main(arguments: Sequence[str]) -> int:
    """Measure or try the blocks that the arguments choose.

    Args:
        arguments: What follows `prompts` on the command line.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=160)
    blocks = [block for block in BLOCKS if _is_chosen(block, options.names)]
    if not blocks:
        print(f"no block is called {' or '.join(options.names)}", file=sys.stderr)
        return 2
    if options.model is not None:
        settings = {"base_url": options.base_url} if options.base_url else {}
        configuration = nh.StepExecutorConfiguration(model=options.model, model_settings=settings)
        anyio.run(partial(_try, blocks, configuration, options.limit, console))
        return 0
    if options.show:
        for block in blocks:
            form = OLD if options.old else DEFAULT
            console.out(anyio.run(partial(first_request, block, form=form)), highlight=False)
        return 0
    try:
        peer = capture() if options.peers else read_peer_tokens()
    except CannotMeasureHereError as reason:
        print(reason, file=sys.stderr)
        return 1
    measured = anyio.run(measure_blocks, blocks)
    bare = anyio.run(partial(measure_blocks, blocks, form=WITHOUT_TOOLS))
    sent = [
        (provider.title, form.title, anyio.run(partial(measure_blocks, blocks, form=form, provider=provider)))
        for provider in PROVIDERS
        for form in (DEFAULT, OLD)
    ]
    goals, providers, parts, sizes, tools, each = (
        goals_of(measured, peer),
        grid_of_providers(sent, peer),
        grid_of_parts(measured, peer),
        grid_of_sizes(measured, peer),
        grid_of_tools(measured, bare, peer),
        grid_of_measured(measured, peer),
    )
    for grid in (each, parts, sizes, tools, providers, goals):
        print_grid(console, grid)
    if peer.sources != digest_of_sources():
        console.print("pydantic-ai was captured with other inputs; use --peers to capture it anew.")
    if options.docs:
        _write_page(PAGE, (goals, providers, parts, sizes, tools))
        _write_page(EACH, (each,))
    return 1 if any(each.failure for each in measured) else 0


async def _try(
    blocks: Sequence[Block], configuration: nh.StepExecutorConfiguration, limit: float, console: Console
) -> None:
    tried: list[Tried] = []
    async for each in try_blocks(blocks, configuration, limit_seconds=limit):
        tried.append(each)
        state = "right" if each.is_right else each.failure
        console.print(
            f"[{len(tried)}/{len(blocks)}] {each.name}: {state} ({each.usage.requests} responses, "
            f"{each.seconds:.1f} s)",
            markup=False,
            highlight=False,
        )
    print_grid(console, grid_of_tried(tried))
    if any(each.corrections for each in tried):
        print_grid(console, grid_of_corrections(tried))


def _write_page(page: Path, grids: Sequence[Grid]) -> None:
    """Put the tables between the marks of a page."""
    tables = "\n".join(map(as_markdown, grids))
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", encoding="utf-8")


def print_grid(console: Console, grid: Grid) -> None:
    """Print a table.

    Args:
        console: The console to print to.
        grid: The table.
    """
    table = Table()
    for number, name in enumerate(grid.head):
        table.add_column(name, justify="left" if number in grid.texts else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*row)
    console.print(table, markup=False)


def _is_chosen(block: Block, names: Sequence[str]) -> bool:
    return not names or any(name in block.name for name in names)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks prompts", description="What a model is shown of blocks that users write."
    )
    parser.add_argument("names", nargs="*", help="only blocks whose name contains one of these")
    parser.add_argument("--peers", action="store_true", help="capture anew what pydantic-ai sends")
    parser.add_argument(
        "--docs", action="store_true", help=f"write the tables into {PAGE.name} and {EACH.name}"
    )
    parser.add_argument("--old", action="store_true", help="show the old form of the requests")
    parser.add_argument("--show", action="store_true", help="print the first requests")
    parser.add_argument("--model", metavar="PROVIDER:NAME", help="try the blocks on a real model")
    parser.add_argument("--base-url", metavar="URL", help="where that model is served")
    parser.add_argument(
        "--limit", type=float, default=120.0, metavar="SECONDS", help="when a block is given up (120)"
    )
    return parser
