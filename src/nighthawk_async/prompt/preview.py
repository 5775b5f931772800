"""Bounded JSON previews of any Python value (specification 8.2.2 and 8.3). Floor 1.

What fits is shown whole. Of what does not, headson selects a structure-aware part within a byte budget, which
is adjusted until the tokens fit.
"""

import importlib
import json
import re
from collections.abc import Callable
from functools import lru_cache

from ..configuration import JsonRendererStyle
from ..types.json import JsonableValue
from .containers import BoundedValue, to_bounded_value
from .plain_text import break_delimiters
from .scalars import BIG_INTEGER_MARK, OMISSION_MARK
from .tokens import TokenCounter

__all__ = ["render_preview"]

_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(ensure_ascii=False).encode

_CELLS_PER_TOKEN = 4
_LEAST_CELLS = 64

_SUMMARY_STRING_CHARACTERS = 500
"""Characters of a string that headson considers at most."""

_BYTES_PER_TOKEN = 6
_SUMMARY_ROUNDS = 8

_OMITTED_ITEMS = re.compile(rf'"{OMISSION_MARK}(\d+)"')
_OMITTED_PROPERTIES = re.compile(rf'"{OMISSION_MARK}": ?(\d+)')
_SHORTENED_MARK = re.compile(rf'"{OMISSION_MARK}\d*…"')
_BIG_INTEGER = re.compile(rf'"{BIG_INTEGER_MARK}(-?\d+)"')

_STRING_OR_COUNT = re.compile(r'("(?:[^"\\]|\\.)*")|(/\* \d+)( more )')

_AFTER_OPENING = re.compile(r"([\[{])\n\s*")
_BEFORE_CLOSING = re.compile(r"\n\s*([\]}])")
_BETWEEN_LINES = re.compile(r"\n\s*")


def render_preview(
    value: object,
    *,
    max_tokens: int,
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
) -> str:
    """Render a value as JSON on one line, within a number of tokens.

    No code of the value runs, and the cost depends on the limit, not on the value's size. Text that looks
    like a section delimiter is broken up.

    Args:
        value: Any Python value.
        max_tokens: The most tokens the result may have, at least 1.
        style: How to show what is left out: `strict` not at all, in valid JSON; `default` by `…`; `detailed`
            by comments that count.
        counter: Counts the tokens.
        show_secrets: Whether to show what stands under names of secrets, at any depth.

    Source: specification 5.2 (`json_renderer_style`), 8.2.2 and 8.3.
    """
    cells = _CELLS_PER_TOKEN * max_tokens + _LEAST_CELLS
    bounded = to_bounded_value(value, cells=cells, with_marks=style != "strict", show_secrets=show_secrets)
    text = _finished(_to_json(bounded.value), bounded, style)
    if not counter.exceeds(text, max_tokens):
        return text
    if type(bounded.value) is str:
        shortened = _shorten_string(bounded.value, max_tokens, counter)
    else:
        shortened = _shorten_structure(bounded, max_tokens, style, counter)
    return _last_resort(bounded.value, max_tokens, style, counter) if shortened is None else shortened


def _shorten_string(text: str, max_tokens: int, counter: TokenCounter) -> str | None:
    """Show the longest beginning that fits; None when not even an ellipsis does."""
    fits, too_long = -1, len(counter.truncate(text, max_tokens)) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if counter.exceeds(_shortened_literal(text, middle), max_tokens):
            too_long = middle
        else:
            fits = middle
    return None if fits < 0 else _shortened_literal(text, fits)


def _shortened_literal(text: str, length: int) -> str:
    return break_delimiters(_to_json(text[:length].removesuffix("…") + "…"))


def _shorten_structure(
    bounded: BoundedValue, max_tokens: int, style: JsonRendererStyle, counter: TokenCounter
) -> str | None:
    """Show all parts with shorter strings if that is enough, else a selection; None when nothing fits."""
    length = _longest_string(bounded.value)
    while length > 2 * _SUMMARY_STRING_CHARACTERS:
        length //= 2
        candidate = _finished(_to_json(_with_shorter_strings(bounded.value, length)), bounded, style)
        if not counter.exceeds(candidate, max_tokens):
            return candidate
    return _summarize(bounded, max_tokens, style, counter)


def _longest_string(value: JsonableValue) -> int:
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(map(_longest_string, parts), default=0)


def _with_shorter_strings(value: JsonableValue, length: int) -> JsonableValue:
    if isinstance(value, str):
        return value if len(value) <= length else value[:length] + "…"
    if isinstance(value, dict):
        return {key: _with_shorter_strings(item, length) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_shorter_strings(item, length) for item in value]
    return value


def _summarize(
    bounded: BoundedValue, max_tokens: int, style: JsonRendererStyle, counter: TokenCounter
) -> str | None:
    """Let headson select parts, adjusting its byte budget until the tokens fit."""
    summarize = _load_summarize()
    source = _to_json(bounded.value)
    budget = _BYTES_PER_TOKEN * max_tokens
    for _ in range(_SUMMARY_ROUNDS):
        pretty = summarize(source, format="json", style=style, input_format="json", byte_budget=budget)
        if not pretty:
            return None
        candidate = _finished(_on_one_line(pretty), bounded, style)
        tokens = counter.count(candidate)
        if tokens <= max_tokens:
            return candidate
        budget = min(budget * 9 // 10, len(pretty.encode()) * max_tokens // tokens)
    return None


@lru_cache(maxsize=1)
def _load_summarize() -> Callable[..., str]:
    """Load headson, which has no type stubs, when the first preview needs it."""
    return importlib.import_module("headson").summarize


def _on_one_line(pretty: str) -> str:
    """Undo headson's indentation, which costs tokens; strings hold no bare line breaks."""
    opened = _AFTER_OPENING.sub(r"\1", pretty)
    return _BETWEEN_LINES.sub(" ", _BEFORE_CLOSING.sub(r"\1", opened))


def _finished(text: str, bounded: BoundedValue, style: JsonRendererStyle) -> str:
    """Replace the marks by what they stand for, and break up what looks like a delimiter."""
    if BIG_INTEGER_MARK in text:
        text = _BIG_INTEGER.sub(r"\1", text).replace(BIG_INTEGER_MARK, "")
    if OMISSION_MARK in text:
        text = _SHORTENED_MARK.sub("…", text)
        text = _OMITTED_ITEMS.sub(r"/* \1 more items */" if style == "detailed" else "…", text)
        text = _OMITTED_PROPERTIES.sub(r"/* \1 more properties */" if style == "detailed" else "…", text)
    if style == "detailed" and not bounded.is_complete:
        text = _STRING_OR_COUNT.sub(_at_least, text)
    return break_delimiters(text)


def _at_least(match: re.Match[str]) -> str:
    """Turn headson's count of the parts it was given into a lower bound; strings stay as they are."""
    return match[1] if match[1] is not None else f"{match[2]}+{match[3]}"


def _last_resort(
    value: JsonableValue, max_tokens: int, style: JsonRendererStyle, counter: TokenCounter
) -> str:
    """Render the least that still is a preview of the right kind."""
    if isinstance(value, list):
        candidates = ("[]", "0") if style == "strict" else ("[…]", "…", "")
    elif isinstance(value, dict):
        candidates = ("{}", "0") if style == "strict" else ("{…}", "…", "")
    else:
        candidates = ('"…"', '""', "0") if style == "strict" else ('"…"', "…", "")
    return next(candidate for candidate in candidates if not counter.exceeds(candidate, max_tokens))
