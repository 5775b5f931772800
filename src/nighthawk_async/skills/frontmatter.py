"""The frontmatter of a `SKILL.md`: a YAML mapping of texts, read event by event.

No object is constructed from the YAML and nothing recurses, so that neither aliases nor nesting cost more
than the length of the text. Every scalar is a text, as the format says: `name: 1` is the name "1".
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct

_DELIMITER = "---"
_FIRST_LINE = 2
"""The line of the file at which the YAML begins."""

Report: TypeAlias = Callable[[str, int | None], None]
"""Reports a fault, with its line."""


class Field(Struct, frozen=True):
    """A field of the frontmatter.

    Args:
        value: A text, a mapping of texts, or None for anything else.
        line: Its line in the file.
    """

    value: str | Mapping[str, str] | None
    line: int


class Document(Struct, frozen=True, kw_only=True):
    """A `SKILL.md`.

    Args:
        fields: The fields of the frontmatter, in their order.
        body: The text after it, without blank lines at both ends.
    """

    fields: Mapping[str, Field]
    body: str


def parse_document(text: str, report: Report) -> Document | None:
    r"""Split a `SKILL.md` into its fields and its body.

    Args:
        text: The text, with `\n` at the ends of lines.
        report: Called for each fault.

    Returns:
        The document; None when there is no frontmatter that can be read.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _DELIMITER:
        report("it must begin with frontmatter: a line that is exactly '---'", 1)
        return None
    closing = next((n for n, line in enumerate(lines) if n and line.rstrip() == _DELIMITER), None)
    if closing is None:
        report("the frontmatter is not terminated: no second line that is exactly '---'", 1)
        return None
    fields = _parse_fields("\n".join(lines[1:closing]) + "\n", report)
    return None if fields is None else Document(fields=fields, body="\n".join(lines[closing + 1 :]).strip())


def _parse_fields(text: str, report: Report) -> dict[str, Field] | None:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = cast("Iterator[Any]", yaml.parse(text, Loader=loader))
        return _Fields(events, report).read()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        report(f"the frontmatter is not valid YAML: {reason}", mark and mark.line + _FIRST_LINE)
        return None


class _RefusedError(Exception):
    """The frontmatter is no mapping; the fault is reported."""


class _Fields:
    """Reads the fields from the events of a YAML parser.

    Args:
        events: The events.
        report: Called for each fault.
    """

    def __init__(self, events: Iterator[Any], report: Report) -> None:
        self._events = events
        self._report = report

    def read(self) -> dict[str, Field] | None:
        try:
            self._begin()
            return dict(self._fields())
        except _RefusedError:
            return None

    def _begin(self) -> None:
        for event in self._events:
            match type(event).__name__:
                case "StreamStartEvent" | "DocumentStartEvent":
                    continue
                case "MappingStartEvent":
                    self._check_plain(event)
                    return
                case "StreamEndEvent":
                    self._report("the frontmatter is empty; it needs 'name' and 'description'", 1)
                case _:
                    self._report("the frontmatter must be a YAML mapping, `name: …`", _line(event))
            raise _RefusedError

    def _fields(self) -> Iterator[tuple[str, Field]]:
        seen: set[str] = set()
        while (event := self._next()) is not None:
            name, line = self._text(event), _line(event)
            value = self._value(self._next())
            if name is None:
                self._report("the name of a field must be a text", line)
            elif name in seen:
                self._report(f"{name!r} is given twice", line)
            else:
                seen.add(name)
                yield name, Field(value, line)
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                self._report("the frontmatter must be one YAML document", _line(event))
                raise _RefusedError

    def _next(self) -> Any:
        """The next event; None at the end of a mapping."""
        event = next(self._events)
        return None if type(event).__name__ == "MappingEndEvent" else event

    def _value(self, event: Any) -> str | dict[str, str] | None:
        match type(event).__name__:
            case "MappingStartEvent":
                self._check_plain(event)
                return self._mapping()
            case _:
                return self._text(event)

    def _mapping(self) -> dict[str, str] | None:
        """A mapping of texts; None if it holds anything else."""
        texts: dict[str, str] = {}
        is_plain = True
        while (event := self._next()) is not None:
            key, value = self._text(event), self._text(self._next())
            if key is None or value is None:
                is_plain = False
            elif key in texts:
                self._report(f"{key!r} is given twice", _line(event))
            else:
                texts[key] = value
        return texts if is_plain else None

    def _text(self, event: Any) -> str | None:
        """The text of a scalar; None for a collection, which is skipped, and for an alias."""
        match type(event).__name__:
            case "ScalarEvent":
                self._check_plain(event)
                return cast("str", event.value)
            case "AliasEvent":
                self._check_plain(event)
            case _:
                self._skip()
        return None

    def _skip(self) -> None:
        depth = 1
        while depth:
            kind = type(next(self._events)).__name__
            depth += kind in ("MappingStartEvent", "SequenceStartEvent")
            depth -= kind in ("MappingEndEvent", "SequenceEndEvent")

    def _check_plain(self, event: Any) -> None:
        if event.anchor is not None:
            self._report("anchors and aliases are not part of the format", _line(event))
        elif event.tag is not None:
            self._report(f"tags such as {event.tag} are not part of the format", _line(event))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + _FIRST_LINE
