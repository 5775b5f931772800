"""Bounded JSON previews of any Python value (specification 8.2.2 and 8.3).

What fits is shown whole. Of what does not, as much is laid out as has room, and what is left out is counted.
"""

import re
from collections.abc import Callable
from typing import cast

from ..configuration import JsonRendererStyle
from .containers import some_parts, whole_value
from .introspection import has_base
from .layout import Layout, encode
from .parts import BIG_INTEGER_MARK, Part, Parts, Table, Text
from .plain_text import break_delimiters, clean_text
from .tokens import TokenCounter

__all__ = ["cut_preview", "render_preview", "whole_preview"]

_CELLS_PER_TOKEN = 2
_LEAST_CELLS = 64
_CHARACTERS_PER_TOKEN = 4
_MOST_CHARACTERS_PER_TOKEN = 32
_ROUNDS = 8

_BIG_INTEGER = re.compile(rf'"{BIG_INTEGER_MARK}(-?\d+)"')


def render_preview(
    value: object,
    *,
    max_tokens: int,
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
    shows_ending: bool = False,
) -> str:
    """Render a value as JSON on one line, within a number of tokens.

    No code of the value runs, and the cost depends on the limit, not on the value's size. Text that looks
    like a section delimiter is broken up.

    Args:
        value: Any Python value.
        max_tokens: The most tokens the result may have, at least 1.
        style: How to show what is left out: `default` by `… 12 of 340 items`; `detailed` by comments,
            `/* 12 of 340 items */`; `strict` only inside texts, so that the result is valid JSON.
        counter: Counts the tokens.
        show_secrets: Whether to show what stands under names of secrets, at any depth.
        shows_ending: Whether a text that does not fit is cut in its middle rather than at its end.

    Source: specification 5.2 (`json_renderer_style`), 8.2.2 and 8.3.
    """
    whole = whole_preview(value, max_tokens=max_tokens, style=style, show_secrets=show_secrets)
    if whole is not None and not counter.exceeds(whole, max_tokens):
        return whole
    return cut_preview(
        value,
        max_tokens=max_tokens,
        style=style,
        counter=counter,
        show_secrets=show_secrets,
        shows_ending=shows_ending,
    )


def whole_preview(
    value: object, *, max_tokens: int, style: JsonRendererStyle, show_secrets: bool = False
) -> str | None:
    """Render all of a value; None when it surely has more tokens, or more parts than are worth a visit.

    Args:
        value: Any Python value.
        max_tokens: A number of tokens. The result may have more: nothing is counted here.
        style: `strict` for JSON; with the others, like records are a table.
        show_secrets: Whether to show what stands under names of secrets.
    """
    whole = whole_value(
        value,
        cells=_CELLS_PER_TOKEN * max_tokens + _LEAST_CELLS,
        with_tables=style != "strict",
        show_secrets=show_secrets,
    )
    if whole is None:
        return None
    return _finished(encode(whole.part) if whole.is_json else Layout(style).write(whole.part))


def cut_preview(
    value: object,
    *,
    max_tokens: int,
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
    shows_ending: bool = False,
) -> str:
    """Render a value of which not everything fits; see `render_preview` for the arguments."""
    if has_base(type(value), str):
        part: Part = _long_text(cast("str", value), max_tokens, shows_ending=shows_ending)
    else:
        part = some_parts(
            value,
            cells=max_tokens + _LEAST_CELLS,
            with_tables=style != "strict",
            show_secrets=show_secrets,
        )
    layout = Layout(style)
    shown = _fitted(lambda room: _finished(layout.show(part, room)), layout.size(part), max_tokens, counter)
    return _last_resort(part, max_tokens, style, counter) if shown is None else shown


def _long_text(value: str, max_tokens: int, *, shows_ending: bool) -> Text:
    characters, length = _MOST_CHARACTERS_PER_TOKEN * max_tokens, str.__len__(value)
    beginning = str.__getitem__(value, slice(0, characters))
    ending = str.__getitem__(value, slice(max(0, length - characters // 2), length)) if shows_ending else ""
    return Text(beginning=clean_text(beginning), length=length, ending=clean_text(ending))


def _fitted(write: Callable[[int], str], most: int, max_tokens: int, counter: TokenCounter) -> str | None:
    """Find the room in which what is written has as many tokens as are allowed, or nearly; None for none.

    Args:
        write: Writes in a number of characters.
        most: The number of characters that suffice for everything.
        max_tokens: The number of tokens allowed.
        counter: Counts tokens.
    """
    best, fits, too_much = None, 0, most + 1
    room = min(most, _CHARACTERS_PER_TOKEN * max_tokens)
    for _ in range(_ROUNDS):
        text = write(room)
        tokens = counter.count(text)
        if tokens <= max_tokens:
            best, fits = text, room
            if room >= most or tokens * 20 >= max_tokens * 19:
                break
        else:
            too_much = room
        guess = room * max_tokens * 98 // (tokens * 100)
        room = guess if fits < guess < too_much else (fits + too_much) // 2
        if room <= fits:
            break
    return best


def _finished(text: str) -> str:
    """Write big integers as numbers, and break up what looks like a delimiter."""
    if BIG_INTEGER_MARK in text:
        text = _BIG_INTEGER.sub(r"\1", text).replace(BIG_INTEGER_MARK, "")
    return break_delimiters(text)


def _last_resort(part: Part, max_tokens: int, style: JsonRendererStyle, counter: TokenCounter) -> str:
    """Render the least that still is a preview of the right kind."""
    if isinstance(part, Table) or (isinstance(part, Parts) and part.keys is None):
        candidates = ("[]", "0") if style == "strict" else ("[…]", "…", "")
    elif isinstance(part, Parts):
        candidates = ("{}", "0") if style == "strict" else ("{…}", "…", "")
    else:
        candidates = ('"…"', '""', "0") if style == "strict" else ('"…"', "…", "")
    return next(candidate for candidate in candidates if not counter.exceeds(candidate, max_tokens))
