"""JSON as models write it where they should write JSON alone: in a fence, in a sentence, with odd syntax.

A text is read where it can mean one thing; everything else is left to the strict parser, which refuses it.
No I/O.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from ..pickling import PicklableError
from ..types.json import is_json_object
from ..types.outcomes import Reading
from .json_text import NOT_JSON, decode_json, has_duplicates


class NotOneMeaningError(PicklableError):
    """A text cannot be read, or can mean several things. Never leaves the reading of an answer."""


_INFO = re.compile(r"[\w+.-]*")
_KEY = re.compile(r"[\"']\s*:")
_MOST_GROUPS = 100
_BRACE = re.compile(r"[{}]")
_IN_GROUP = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*+(?:"|\Z)
        |(?<=[\[{:,\s])'(?:[^'\\]|\\.)*+'(?=\s*[\]},:]))
    |[{}]""",
    re.VERBOSE | re.DOTALL,
)

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<double>"(?:[^"\\]|\\.)*+")
    |(?P<single>'(?:[^'\\]|\\.)*+')
    |(?P<comma>,)
    |(?P<close>[}\]])
    |(?P<open>[{\[:])
    |(?P<word>[-+.\w]+)""",
    re.VERBOSE | re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_IN_TEXT = re.compile(r"""\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escaped>.)|(?P<quote>")""", re.DOTALL)
_RAW_CONTROLS = re.compile(r"[\x00-\x1f]")


def unfenced(text: str) -> str | None:
    """The content of a text that is one fenced block and nothing else; None for any other text.

    Args:
        text: The text.
    """
    text = text.strip()
    ticks = "```" if text.startswith("```") else "`"
    inner = text[len(ticks) : -len(ticks)]
    if len(text) < 2 * len(ticks) + 1 or not text.startswith(ticks) or not text.endswith(ticks):
        return None
    if ticks in inner:
        return None
    first, line_break, rest = inner.partition("\n")
    is_block = ticks == "```" and line_break and _INFO.fullmatch(first.strip()) is not None
    return rest if is_block else inner


def read_object(text: str, readings: list[Reading]) -> dict[str, Any]:
    """The one JSON object of a text.

    Args:
        text: The text.
        readings: How it was read is appended; nothing for JSON as it should be.

    Raises:
        NotOneMeaningError: There is none, or there are several.
    """
    try:
        whole: object = decode_json(text)
    except NOT_JSON:
        whole = _loose_object(text, readings)
    else:
        if has_duplicates(text):
            raise NotOneMeaningError
        if isinstance(whole, str):  # JSON as the text of JSON
            readings.append("json_text")
            whole = read_value(whole, readings)
    if not is_json_object(whole):
        raise NotOneMeaningError
    return whole


def read_value(text: str, readings: list[Reading]) -> Any:
    """The JSON value of a text that is nothing else.

    Args:
        text: The text, fenced or not.
        readings: How it was read is appended.

    Raises:
        NotOneMeaningError: It is no JSON, or names a field twice.
    """
    inner = unfenced(text)
    if inner is not None:
        readings.append("fence")
        text = inner
    try:
        value: Any = decode_json(text)
    except NOT_JSON:
        text = _strict(text.strip())
        readings.append("json_syntax")
        try:
            value = decode_json(text)
        except NOT_JSON as error:
            raise NotOneMeaningError from error
    if has_duplicates(text):
        raise NotOneMeaningError
    return value


def _loose_object(text: str, readings: list[Reading]) -> object:
    if unfenced(text) is not None or (text.lstrip()[:1] == "{" and text.rstrip()[-1:] == "}"):
        before = len(readings)
        try:
            return read_value(text, readings)
        except NotOneMeaningError:
            del readings[before:]
    return _object_in_sentence(text, readings)


def _object_in_sentence(text: str, readings: list[Reading]) -> object:
    """The object among words. All others must be the same, and nothing around it may look like JSON."""
    found: list[tuple[Any, list[Reading]]] = []
    around: list[str] = []
    end = 0
    for start, stop in _groups(text):
        if len(around) + len(found) > _MOST_GROUPS:
            raise NotOneMeaningError
        group, how = text[start:stop], list[Reading]()
        try:
            value = read_value(group, how)
        except NotOneMeaningError:
            around.append("")
            if not group[1:-1].strip() or any(each in group for each in "\"':"):
                raise  # JSON gone wrong, and not words such as {a, b}
            continue
        around.append(text[end:start])
        end = stop
        found.append((value, how))
    around.append(text[end:])
    values = {json.dumps(value, sort_keys=True) for value, _ in found}
    if len(values) != 1 or any(_looks_like_json(part) for part in around):
        raise NotOneMeaningError
    readings.append("fence" if "```" in "".join(around) else "sentence")
    readings += found[0][1]
    return found[0][0]


def _looks_like_json(words: str) -> bool:
    words = words.strip()
    return words[-1:] == "[" or words[:1] == "]" or _KEY.search(words) is not None


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """The places of the outermost braces in a text; raises where they are not balanced."""
    position = 0
    while (mark := _BRACE.search(text, position)) is not None:
        stop = _end_of_group(text, mark.start())
        yield mark.start(), stop
        position = stop


def _end_of_group(text: str, start: int) -> int:
    depth = 0
    for mark in _IN_GROUP.finditer(text, start):
        if mark["string"] is None:
            depth += 1 if mark[0] == "{" else -1
            if depth <= 0:
                break
    else:
        raise NotOneMeaningError
    if depth:
        raise NotOneMeaningError
    return mark.end()


def _strict(text: str) -> str:
    """A text with Python's quotes and words, trailing commas and raw line breaks as strict JSON."""
    parts: list[str] = []
    position, comma = 0, ""
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise NotOneMeaningError
        position = token.end()
        match token.lastgroup:
            case "space":
                continue
            case "comma":
                if comma or not parts or parts[-1] in ("{", "[", ":"):
                    raise NotOneMeaningError  # a value may be missing
                comma = ","
                continue
            case "close":
                comma = ""  # a trailing comma
            case _:
                pass
        parts += (comma, _strict_token(token)) if comma else (_strict_token(token),)
        comma = ""
    if comma:
        raise NotOneMeaningError
    return " ".join(parts)


def _strict_token(token: re.Match[str]) -> str:
    given = token[0]
    match token.lastgroup:
        case "single" | "double":
            return _RAW_CONTROLS.sub(_escaped_control, f'"{_IN_TEXT.sub(_escaped, given[1:-1])}"')
        case "word":
            return _PYTHON_WORDS.get(given, given)
        case _:
            return given


def _escaped(found: re.Match[str]) -> str:
    if found["quote"] is not None:
        return '\\"'
    if found["hex"] is not None:
        return f"\\u00{found['hex']}"
    return "'" if found["escaped"] == "'" else found[0]


def _escaped_control(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
