"""Bounded JSON previews of any Python value (specification 8.2.2 and 8.3).

A value that fits is shown whole. Otherwise as much as fits is shown, and the omitted parts are counted.

`render_preview` has two stages. A walk makes JSON values of the value: not a serializer, the result is only
displayed. `Layout` then writes these parts in a given room.
"""

from collections.abc import Callable

from ..configuration import JsonRendererStyle
from .identities import LineObjects
from .layout import Layout
from .plain_text import Part, Parts, Table, Text, clean_text, encode, finished_preview, is_string
from .scalars import SCALARS
from .tokens import TokenCounter
from .value_sizes import fewest_tokens
from .walk import INTEGER_BITS, LEAST_CELLS, some_parts, whole_value

_TOKENS_PER_SPARE_CELL = 4
"""A cell has a token or more, nearly always; values that surely do not fit are left early."""
_CHARACTERS_PER_TOKEN = 4
_MOST_CHARACTERS_PER_TOKEN = 32
_ROUNDS = 8


def render_preview(
    value: object,
    *,
    max_tokens: int,
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
    shows_ending: bool = False,
    objects: LineObjects | None = None,
) -> str:
    """Render a value as JSON on one line, within a number of tokens.

    No code of the value runs, and the cost depends on the limit, not on the value's size. Text that looks
    like a section delimiter is broken up.

    Args:
        value: Any Python value.
        max_tokens: The greatest number of tokens of the result, at least 1.
        style: The style of marks for omitted parts: `default` for `… 12 of 340 items`; `detailed` for
            comments, `/* 12 of 340 items */`; `strict` only inside texts, so that the result is valid JSON.
        counter: Counts the tokens.
        show_secrets: Whether to show values with secret names, at any depth.
        shows_ending: Whether what does not fit is cut in its middle rather than at its end, and facts about
            its numbers are shown: of texts in any style, of containers where there are marks.
        objects: Gets the objects that are shown; None when no other value mentions them.

    Source: specification 5.2 (`json_renderer_style`), 8.2.2 and 8.3.
    """
    whole = whole_preview(
        value, max_tokens=max_tokens, style=style, show_secrets=show_secrets, objects=objects
    )
    if whole is not None and not counter.exceeds(whole, max_tokens):
        return whole
    return cut_preview(
        value,
        max_tokens=max_tokens,
        style=style,
        counter=counter,
        show_secrets=show_secrets,
        shows_ending=shows_ending,
        objects=objects,
    )


def whole_preview(
    value: object,
    *,
    max_tokens: int,
    style: JsonRendererStyle,
    show_secrets: bool = False,
    objects: LineObjects | None = None,
) -> str | None:
    """Render all of a value; None when it surely has more tokens, or more parts than are worth visiting.

    Args:
        value: Any Python value.
        max_tokens: A number of tokens. The result may have more: nothing is counted here.
        style: `strict` for JSON; with the others, like records are a table.
        show_secrets: Whether to show values with secret names.
        objects: Gets the objects that are shown; None when no other value mentions them.
    """
    cells = max_tokens + max_tokens // _TOKENS_PER_SPARE_CELL + LEAST_CELLS
    objects = objects or LineObjects.alone(show_secrets=show_secrets)
    if type(value) is str and value.isascii() and len(value) <= cells:  # as most values are
        return finished_preview(encode(value))
    if type(value) is int and value.bit_length() < INTEGER_BITS:
        return int.__repr__(value)
    most = max_tokens + LEAST_CELLS
    if id(type(value)) not in SCALARS and fewest_tokens(value, most=most, objects=objects) > most:
        return None
    whole = whole_value(
        value,
        cells=cells,
        with_tables=style != "strict",
        show_secrets=show_secrets,
        objects=objects,
    )
    if whole is None:
        return None
    return finished_preview(encode(whole.part) if whole.is_json else Layout(style).write(whole.part))


def cut_preview(
    value: object,
    *,
    max_tokens: int,
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
    shows_ending: bool = False,
    objects: LineObjects | None = None,
) -> str:
    """Render a value that does not fit whole; see `render_preview` for the arguments."""
    if is_string(value):
        part: Part = _long_text(value, max_tokens, shows_ending=shows_ending)
    else:
        part = some_parts(
            value,
            cells=max_tokens + LEAST_CELLS,
            with_tables=style != "strict",
            show_secrets=show_secrets,
            shows_ending=shows_ending and style != "strict",
            objects=objects,
        )
    layout = Layout(style, shows_ending=shows_ending and style != "strict")
    shown = _fitted(
        lambda room: finished_preview(layout.show(part, room)), layout.size(part), max_tokens, counter
    )
    return _last_resort(part, max_tokens, style, counter) if shown is None else shown


def _long_text(value: str, max_tokens: int, *, shows_ending: bool) -> Text:
    characters, length = _MOST_CHARACTERS_PER_TOKEN * max_tokens, str.__len__(value)
    beginning = str.__getitem__(value, slice(0, characters))
    ending = str.__getitem__(value, slice(max(0, length - characters // 2), length)) if shows_ending else ""
    return Text(beginning=clean_text(beginning), length=length, ending=clean_text(ending))


def _fitted(write: Callable[[int], str], most: int, max_tokens: int, counter: TokenCounter) -> str | None:
    """Find the room in which the text has about as many tokens as are allowed; None for none.

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


def _last_resort(part: Part, max_tokens: int, style: JsonRendererStyle, counter: TokenCounter) -> str:
    """Render the shortest preview of the right kind."""
    if isinstance(part, Table) or (isinstance(part, Parts) and part.keys is None):
        candidates = ("[]", "0") if style == "strict" else ("[…]", "…", "")
    elif isinstance(part, Parts):
        candidates = ("{}", "0") if style == "strict" else ("{…}", "…", "")
    else:
        candidates = ('"…"', '""', "0") if style == "strict" else ('"…"', "…", "")
    return next(candidate for candidate in candidates if not counter.exceeds(candidate, max_tokens))
