"""The figures of the case as tables, for a terminal and for the documentation."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec

from .measuring import PARTS, Measured
from .peer_tokens import PeerTokens
from .trial import Tried

__all__ = [
    "Grid",
    "as_markdown",
    "goals_of",
    "grid_of_corrections",
    "grid_of_measured",
    "grid_of_parts",
    "grid_of_providers",
    "grid_of_sizes",
    "grid_of_tools",
    "grid_of_tried",
]

WANTED_SHARE = 48 / 49
"""The share of blocks that have to be answered in one round trip."""

MOST_TOKENS = 1.2
"""How many tokens may be sent until the answer for each one of the peer."""

MOST_TOKENS_AT_FIRST = 1.36
"""How many tokens the first request may have for each one of the peer's."""

SIZES = (200, 500)
"""Where small requests end, and where large ones begin."""

MOST_CHARACTERS = 120
"""How much is shown of what went wrong."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A table.

    Args:
        head: The names of its columns.
        rows: Its rows.
        texts: Which columns hold words, and no figures.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[int] = frozenset({0})


def grid_of_measured(measured: Sequence[Measured], peer: PeerTokens) -> Grid:
    """One row for each block, and one for all."""
    rows = [_row(each, peer) for each in measured]
    facts = sum(each.facts for each in measured)
    rows.append(
        (
            f"all {len(measured)}",
            *_compared(*_sums_of_first(measured, peer)),
            *_compared(*_sums_until_answered(measured, peer)),
            f"{facts - sum(len(each.missing) for each in measured)} of {facts}",
            f"{sum(each.round_trips for each in measured) / len(measured):.2f}",
            "",
        )
    )
    head = (
        "block",
        "first request",
        "pydantic-ai",
        "ratio",
        "until answered",
        "pydantic-ai",
        "ratio",
        "facts shown",
        "round trips",
        "missing",
    )
    return Grid(head=head, rows=rows, texts=frozenset({0, 9}))


def grid_of_parts(measured: Sequence[Measured], peer: PeerTokens) -> Grid:
    """Where the tokens of a block go on average, and those of all the peer's agents."""
    total = sum(each.tokens for each in measured)
    sums = {part: sum(each.parts[part] for each in measured) for part in PARTS}
    rows = [
        (
            part,
            f"{tokens / len(measured):.0f}",
            f"{tokens / total:.0%}",
            f"{peer.parts.get(part, 0) / len(peer.tokens):.0f}",
        )
        for part, tokens in sums.items()
    ]
    return Grid(head=("part", "tokens of a block", "share", "pydantic-ai"), rows=rows)


def grid_of_sizes(measured: Sequence[Measured], peer: PeerTokens) -> Grid:
    """Tokens by the size of what the peer sends: what all requests share weighs less on large ones."""
    rows: list[tuple[str, ...]] = []
    for least, below in itertools.pairwise((0, *SIZES, math.inf)):
        chosen = [each for each in measured if least <= peer.tokens.get(each.name, -1) < below]
        if chosen:
            size = f"below {below:,}" if below in SIZES else f"{least:,} and more"
            rows.append((size, str(len(chosen)), *_compared(*_sums_until_answered(chosen, peer))))
    head = ("first request of pydantic-ai", "blocks", "tokens until answered", "pydantic-ai", "ratio")
    return Grid(head=head, rows=rows)


def grid_of_tools(measured: Sequence[Measured], bare: Sequence[Measured], peer: PeerTokens) -> Grid:
    """Tokens of the blocks that need no provided tools, with and without them.

    Args:
        measured: All blocks.
        bare: The same blocks, measured without the tools.
        peer: What the peer sends.
    """
    answered = [each for each in bare if each.failure is None]
    names = {each.name for each in answered}
    rows = [
        (name, str(len(chosen)), *_compared(*_sums_until_answered(chosen, peer)))
        for name, chosen in (
            ("where they can help", [each for each in measured if each.name in names]),
            ("none", answered),
        )
    ]
    return Grid(head=("provided tools", "blocks", "tokens until answered", "pydantic-ai", "ratio"), rows=rows)


def grid_of_providers(measured: Sequence[tuple[str, str, Sequence[Measured]]], peer: PeerTokens) -> Grid:
    """Tokens of a request as each provider is sent it, in each form.

    Args:
        measured: The blocks as they were measured, with the titles of the provider and of the form.
        peer: What the peer sends.
    """
    rows = [
        (
            provider,
            form,
            f"{sum(each.tokens for each in blocks) / len(blocks):,.0f}",
            _ratio(*_sums_of_first(blocks, peer)),
            f"{sum(each.until_answered for each in blocks) / len(blocks):,.0f}",
            _ratio(*_sums_until_answered(blocks, peer)),
        )
        for provider, form, blocks in measured
    ]
    head = ("provider", "form", "first request", "ratio", "until answered", "ratio")
    return Grid(head=head, rows=rows, texts=frozenset({0, 1}))


def goals_of(measured: Sequence[Measured], peer: PeerTokens) -> Grid:
    """The goals, and how they are met."""
    wanted = math.ceil(len(measured) * WANTED_SHARE)
    complete = [each for each in measured if not each.missing and each.failure is None]
    at_once = sum(each.round_trips == 1 for each in complete)
    ours, theirs = _sums_until_answered(measured, peer)
    first_ours, first_theirs = _sums_of_first(measured, peer)
    most = f"{wanted} of {len(measured)} blocks"
    rows = [
        _goal(
            "every fact is shown",
            f"all {len(measured)} blocks",
            len(complete),
            is_met=len(complete) == len(measured),
        ),
        _goal("answered in one round trip", most, at_once, is_met=at_once >= wanted),
        _goal(
            "tokens until answered, compared with pydantic-ai",
            f"at most {MOST_TOKENS:.2f} times",
            _ratio(ours, theirs),
            is_met=ours <= theirs * MOST_TOKENS,
        ),
        _goal(
            "tokens of the first request alone",
            f"at most {MOST_TOKENS_AT_FIRST:.2f} times",
            _ratio(*_sums_of_first(measured, peer)),
            is_met=first_ours <= first_theirs * (MOST_TOKENS_AT_FIRST + 0.005),
        ),
    ]
    return Grid(head=("goal", "wanted", "measured", "verdict"), rows=rows, texts=frozenset({0, 1, 3}))


def grid_of_tried(tried: Sequence[Tried]) -> Grid:
    """How a real model did, block by block and in sum."""
    rows = [
        (
            each.name,
            "yes" if each.is_right else "no",
            str(each.steps),
            str(each.usage.requests),
            f"{each.usage.input_tokens:,}",
            f"{each.usage.output_tokens:,}",
            _cost(each.cost),
            f"{each.seconds:.1f} s",
            _shortened(each.failure or ""),
        )
        for each in tried
    ]
    costs = [each.cost for each in tried]
    rows.append(
        (
            f"all {len(tried)}",
            f"{sum(each.is_right for each in tried)} right",
            str(sum(each.steps for each in tried)),
            str(sum(each.usage.requests for each in tried)),
            f"{sum(each.usage.input_tokens for each in tried):,}",
            f"{sum(each.usage.output_tokens for each in tried):,}",
            _cost(None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0))),
            f"{sum(each.seconds for each in tried):.1f} s",
            "",
        )
    )
    head = (
        "block",
        "right",
        "steps",
        "responses",
        "tokens in",
        "tokens out",
        "cost",
        "time",
        "what went wrong",
    )
    return Grid(head=head, rows=rows, texts=frozenset({0, 1, 8}))


def grid_of_corrections(tried: Sequence[Tried]) -> Grid:
    """How often a model was told that something was wrong, the most frequent cause first."""
    causes = sum((Counter(each.corrections) for each in tried), Counter[str]())
    rows = [(cause, str(times)) for cause, times in causes.most_common()]
    return Grid(head=("corrected", "times"), rows=rows)


def as_markdown(grid: Grid) -> str:
    """A table in Markdown."""
    rule = ["---" if number in grid.texts else "---:" for number in range(len(grid.head))]
    return "\n".join(_lines(grid, rule)) + "\n"


def _lines(grid: Grid, rule: Sequence[str]) -> Iterator[str]:
    for row in (grid.head, rule, *grid.rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _sums_of_first(measured: Sequence[Measured], peer: PeerTokens) -> tuple[int, int]:
    """Tokens of first requests, ours and the peer's, of the blocks that both have."""
    compared = [each for each in measured if each.name in peer.tokens]
    return sum(each.tokens for each in compared), sum(peer.tokens[each.name] for each in compared)


def _sums_until_answered(measured: Sequence[Measured], peer: PeerTokens) -> tuple[int, int]:
    """Tokens of all requests until the answer, ours and the peer's, of the blocks that both have."""
    compared = [each for each in measured if each.name in peer.until_answered]
    return (
        sum(each.until_answered for each in compared),
        sum(peer.until_answered[each.name] for each in compared),
    )


def _row(each: Measured, peer: PeerTokens) -> tuple[str, ...]:
    trouble = (*each.missing, *((_shortened(each.failure),) if each.failure else ()))
    return (
        each.name,
        *_compared(each.tokens, peer.tokens.get(each.name, 0)),
        *_compared(each.until_answered, peer.until_answered.get(each.name, 0)),
        f"{each.facts - len(each.missing)} of {each.facts}",
        str(each.round_trips),
        "; ".join(trouble),
    )


def _goal(what: str, wanted: str, measured: object, *, is_met: bool) -> tuple[str, ...]:
    return what, wanted, str(measured), "met" if is_met else "missed"


def _compared(ours: int, theirs: int) -> tuple[str, str, str]:
    return f"{ours:,}", f"{theirs:,}" if theirs else "", _ratio(ours, theirs)


def _ratio(ours: int, theirs: int) -> str:
    return f"{ours / theirs:.2f}" if theirs else ""


def _shortened(text: str) -> str:
    """A text on one line, with room for the other columns."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"


def _cost(cost: Decimal | None) -> str:
    return "unknown" if cost is None else f"${cost:.4f}"
