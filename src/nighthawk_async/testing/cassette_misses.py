"""What is said when no recording fits a request. Floor 5."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .cassette_exchange import RecordedExchange
from .cassette_file import dump_value

__all__ = ["describe_miss"]

_MAX_DIFFERENCE_LINES = 60
_MAX_LINE_CHARACTERS = 100
_MAX_COMPARED = 40
_MAX_STEPS = 20
_HOW_TO_RECORD = (
    "Record what is missing with mode='new', or everything anew with mode='all'; "
    "in pytest with --record=new or --record=all."
)


def describe_miss(
    step: tuple[str, ...],
    model_name: str,
    request: Mapping[str, Any],
    recordings: Sequence[RecordedExchange],
    *,
    digest: str,
) -> str:
    """Why a request found no recording, and what to do about it.

    Args:
        step: Where the request comes from.
        model_name: The model id.
        request: The canonical request.
        recordings: All recordings of the cassette.
        digest: What identifies model and request.
    """
    same_step = [each for each in recordings if each.step == step]
    times = sum(each.digest == digest for each in same_step)
    if times:
        details = f"This very request is recorded {times} times, and every recording is used."
    elif same_step:
        details = _difference(model_name, request, same_step)
    else:
        details = _known_steps(recordings)
    return (
        f"No recording is left for this request of {_show(step)} to {model_name}. {details}\n{_HOW_TO_RECORD}"
    )


def _difference(model_name: str, request: Mapping[str, Any], recordings: list[RecordedExchange]) -> str:
    asked = _lines(model_name, request)
    candidates = [_lines(each.model, each.request) for each in recordings[:_MAX_COMPARED]]
    nearest = max(candidates, key=lambda lines: _likeness(lines, asked))
    difference = [
        line.rstrip() for line in difflib.unified_diff(nearest, asked, "recorded", "asked", n=2, lineterm="")
    ]
    cut = len(difference) - _MAX_DIFFERENCE_LINES
    if cut > 0:
        difference = [*difference[:_MAX_DIFFERENCE_LINES], f"… {cut} more lines"]
    head = f"The nearest of {len(recordings)} recordings of this step differs so:"
    return "\n".join([head, *difference])


def _known_steps(recordings: Sequence[RecordedExchange]) -> str:
    steps = list(dict.fromkeys(_show(each.step) for each in recordings))
    if not steps:
        return "Nothing is recorded."
    shown = [f"- {each}" for each in steps[:_MAX_STEPS]]
    if len(steps) > _MAX_STEPS:
        shown.append(f"… {len(steps) - _MAX_STEPS} more")
    return "\n".join(["There are recordings of these steps only:", *shown])


def _lines(model_name: str, request: Mapping[str, Any]) -> list[str]:
    """A request as lines; long ones are cut in pieces, so that a difference inside them can be seen."""
    text = dump_value({"model": model_name, **request})
    return [piece for line in text.splitlines() for piece in _pieces(line)]


def _pieces(line: str) -> Iterator[str]:
    yield line[:_MAX_LINE_CHARACTERS]
    for start in range(_MAX_LINE_CHARACTERS, len(line), _MAX_LINE_CHARACTERS):
        yield line[start : start + _MAX_LINE_CHARACTERS]


def _likeness(lines: list[str], asked: list[str]) -> float:
    return difflib.SequenceMatcher(None, lines, asked, autojunk=False).ratio()


def _show(step: tuple[str, ...]) -> str:
    return " > ".join(step) if step else "no step"
