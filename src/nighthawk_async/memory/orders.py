"""The requests to a memory, checked: the arguments of its methods, as values that a journal can compare."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from ..errors import ConfigurationError
from ..journal.blob_table import LARGE_BYTES
from ..types.json import JsonableValue
from .errors import MemoryUseError, MemoryValueError
from .records import MemoryRecord, RecallMode
from .values import dump_value, write_json
from .words import folded

MAX_RECALLED = 1_000
MAX_KEY, _MAX_TAG, _MAX_TAGS, _MAX_NAMESPACE = 1_000, 200, 100, 200
_MAX_CLAIM = 10_000
_SEGMENT = re.compile(r"[^\W_][\w.\-]*")


class StoreOrder(Struct, frozen=True, kw_only=True):
    """A record to store; see `MemoryRecord`."""

    key: str
    value: JsonableValue
    tags: tuple[str, ...] = ()
    id: str = ""
    provenance: str = ""
    valid_until: float | None = None
    kind: str = ""
    confidence: float | None = None
    type: str = ""

    @property
    def text(self) -> str:
        """The text that is searched."""
        return self.value if isinstance(self.value, str) else write_json(self.value)

    def record(self, *, id: str, namespace: str, at: float) -> MemoryRecord:
        """The record that it becomes."""
        return MemoryRecord(
            id=id,
            namespace=namespace,
            key=self.key,
            value=self.value,
            text=self.text,
            tags=self.tags,
            stored_at=utc(at),
            provenance=self.provenance,
            valid_until=None if self.valid_until is None else utc(self.valid_until),
            kind=self.kind,
            confidence=self.confidence,
            type=self.type,
        )


class RecallOrder(Struct, frozen=True, kw_only=True):
    """A query; see `Memory.recall`."""

    query: str
    k: int
    mode: RecallMode
    tags: tuple[str, ...] = ()
    kind: str = ""
    min_confidence: float | None = None


class Predicate(Struct, frozen=True, kw_only=True):
    """A choice of records, by all that is given."""

    id: str = ""
    key: str = ""
    tags: tuple[str, ...] = ()
    query: str = ""
    kind: str = ""
    claim: str = ""
    evidence: str = ""

    def matches(self, record: MemoryRecord) -> bool:
        """Whether it chooses a record."""
        tags = set(map(folded, record.tags))
        searched = folded("\n".join((record.key, *record.tags, record.text)))
        return (
            self.id in ("", record.id)
            and self.key in ("", record.key)
            and self.kind in ("", record.kind)
            and all(folded(tag) in tags for tag in self.tags)
            and folded(self.query) in searched
            and (not (self.claim or self.evidence) or self._matches_fact(record.value))
        )

    def _matches_fact(self, value: JsonableValue) -> bool:
        if not isinstance(value, dict):
            return False
        evidence = value.get("evidence")
        pieces = evidence if isinstance(evidence, list) else []
        return self.claim in ("", value.get("claim")) and (
            not self.evidence or any(folded(self.evidence) in folded(write_json(each)) for each in pieces)
        )


def utc(at: float) -> datetime:
    """The time for seconds since 1970."""
    return datetime.fromtimestamp(at, UTC)


def store_order(
    key: str,
    value: object,
    *,
    tags: Iterable[str],
    id: str | None,
    provenance: str,
    valid_until: datetime | None,
    kind: str,
    confidence: float | None,
) -> StoreOrder:
    """Check a record to store.

    Raises:
        MemoryUseError: An argument cannot be used.
        MemoryValueError: The value cannot be stored faithfully, or the record is too large.
    """
    key = checked_text(key, "the key", MAX_KEY)
    data, type_name = dump_value(value, key)
    order = StoreOrder(
        key=key,
        value=data,
        tags=checked_tags(tags),
        id="" if id is None else checked_text(id, "the id", _MAX_TAG),
        provenance=checked_text(provenance, "the provenance", MAX_KEY, may_be_empty=True),
        valid_until=None if valid_until is None else _seconds(valid_until),
        kind=checked_text(kind, "the kind", _MAX_TAG, may_be_empty=True),
        confidence=None if confidence is None else checked_confidence(confidence, "confidence"),
        type=type_name,
    )
    encoded_order(order)
    return order


def encoded_order(order: StoreOrder) -> bytes:
    """Return a record as it is stored.

    Raises:
        MemoryValueError: It is too large, or has a text that is none.
    """
    names = ("key", "value", "tags", "provenance", "valid_until", "kind", "confidence", "type")
    try:
        body = write_json({name: getattr(order, name) for name in names}).encode()
    except (UnicodeEncodeError, ValueError) as error:
        raise MemoryValueError(f"the value of {order.key!r} cannot be stored: {error}") from None
    if len(body) >= LARGE_BYTES:
        raise MemoryValueError(
            f"the record of {order.key!r} has {len(body):,} bytes; the most is {LARGE_BYTES:,}. Store its "
            "parts under keys of their own, or the path of a file."
        )
    return body


def recall_order(
    query: str, *, k: int, mode: str, tags: Iterable[str], kind: str | None, min_confidence: float | None
) -> RecallOrder:
    """Check a query.

    Raises:
        MemoryUseError: An argument cannot be used.
    """
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MemoryUseError(f"the query is a text, not {query!r}")
    if type(k) is not int or not 1 <= k <= MAX_RECALLED:
        raise MemoryUseError(f"k is a number from 1 to {MAX_RECALLED:,}, not {k!r}")
    if mode not in ("lexical", "semantic", "hybrid"):
        raise MemoryUseError(f"mode is 'lexical', 'semantic' or 'hybrid', not {mode!r}")
    if mode == "semantic" and not query.strip():
        raise MemoryUseError("a semantic query is not empty; recall by tags alone with mode='lexical'")
    return RecallOrder(
        query=query.encode(errors="replace").decode(),
        k=k,
        mode=mode,
        tags=checked_tags(tags),
        kind=kind or "",
        min_confidence=None
        if min_confidence is None
        else checked_confidence(min_confidence, "min_confidence"),
    )


def predicate(
    *, id: str | None, key: str | None, tag: str | Iterable[str] | None, query: str | None
) -> Predicate:
    """Check a choice of records.

    Raises:
        MemoryUseError: Nothing is given, or an argument cannot be used.
    """
    given = {name: text for name, text in (("id", id), ("key", key), ("query", query)) if text is not None}
    tags = checked_tags((tag,) if isinstance(tag, str) else tag or ())
    for name, text in given.items():
        checked_text(text, name, MAX_KEY)
    if not given and not tags:
        raise MemoryUseError("name the records: by id=, key=, tag= or query=; several must all match")
    return Predicate(
        id=given.get("id", ""),
        key=given.get("key", ""),
        tags=tags,
        query=given.get("query", ""),
    )


def fact_predicate(
    *,
    id: str | None,
    kind: str | None,
    claim: str | None,
    evidence: str | None,
    tag: str | Iterable[str] | None,
    query: str | None,
) -> Predicate:
    """Check a choice of facts.

    Raises:
        MemoryUseError: Nothing is given, or an argument cannot be used.
    """
    named = (("id", id), ("kind", kind), ("claim", claim), ("evidence", evidence), ("query", query))
    given = {name: checked_text(text, name, _MAX_CLAIM) for name, text in named if text is not None}
    tags = checked_tags((tag,) if isinstance(tag, str) else tag or ())
    if not given and not tags:
        raise MemoryUseError(
            "name the facts: by id=, kind=, claim=, evidence=, tag= or query=; several must all match"
        )
    return Predicate(**given, tags=("fact", *tags))


def checked_namespace(namespace: str) -> str:
    """Check a namespace: a relative path that leads nowhere else.

    Raises:
        ConfigurationError: It is none.
    """
    is_text = isinstance(namespace, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    parts = namespace.split("/") if is_text else []
    is_path = is_text and len(namespace) <= _MAX_NAMESPACE and all(map(_SEGMENT.fullmatch, parts))
    if not is_path:
        raise ConfigurationError(
            f"a namespace is a relative path such as 'support/mail', of at most {_MAX_NAMESPACE} characters, "
            "whose names begin with a letter or digit and go on with these, '_', '-' and '.': not "
            f"{namespace!r}"
        )
    return namespace


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Check tags; a lone text is one. Each is kept once."""
    given = (tags,) if isinstance(tags, str) else tuple(tags)
    if len(given) > _MAX_TAGS:
        raise MemoryUseError(f"there are {len(given)} tags; the most is {_MAX_TAGS}")
    return tuple(dict.fromkeys(checked_text(tag, "a tag", _MAX_TAG) for tag in given))


def checked_text(text: str, name: str, most: int, *, may_be_empty: bool = False) -> str:
    """Check a text that names something."""
    if not isinstance(text, str) or not (may_be_empty or text.strip()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MemoryUseError(f"{name} is a text that is not empty, not {text!r}")
    if len(text) > most:
        raise MemoryUseError(f"{name} has {len(text):,} characters; the most is {most:,}")
    if "\0" in text or text.encode(errors="replace") != text.encode(errors="surrogatepass"):
        raise MemoryUseError(f"{name} has a NUL character or half of a surrogate pair: {text!r}")
    return text


def checked_confidence(confidence: float, name: str) -> float:
    """Check a confidence."""
    if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
        raise MemoryUseError(f"{name} is a number from 0 to 1, not {confidence!r}")
    return float(confidence)


def _seconds(time: datetime) -> float:
    if not isinstance(time, datetime) or time.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MemoryUseError(
            f"valid_until is a datetime with a time zone, such as datetime.now(UTC) + timedelta(days=30), "
            f"not {time!r}"
        )
    seconds = time.timestamp()
    if not math.isfinite(seconds):
        raise MemoryUseError(f"valid_until is no time: {time!r}")
    return seconds
