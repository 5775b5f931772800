"""Records of a memory, and what its methods return."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar, overload

from msgspec import Struct

from ..prompt.plain_text import ShownAsText
from .values import load_value

Value = TypeVar("Value")

RecallMode: TypeAlias = Literal["lexical", "semantic", "hybrid"]
"""The way in which records are compared with a query: by words, by meaning, or by both."""


class MemoryRecord(ShownAsText, Struct, frozen=True, kw_only=True):
    """A record of a memory. As text, a line with its key, its tags and its text.

    Args:
        id: Its id.
        namespace: The namespace.
        key: The key: of the records with the same one, the latest counts.
        value: The value, as plain data; see `parse`.
        text: The text that is searched: the value, or its JSON.
        tags: The tags.
        stored_at: The time at which it was stored, in UTC.
        provenance: The source, as the program has named it; empty for none.
        valid_until: The time from which it is not recalled, in UTC; None for never.
        kind: The kind, such as that of a fact; empty for none.
        confidence: The confidence in it, from 0 to 1; None for none.
        type: The full name of the type of the value; empty for plain data.
    """

    id: str
    namespace: str
    key: str
    value: Any
    text: str
    tags: tuple[str, ...] = ()
    stored_at: datetime
    provenance: str = ""
    valid_until: datetime | None = None
    kind: str = ""
    confidence: float | None = None
    type: str = ""

    def __str__(self) -> str:
        tags = f" [{', '.join(self.tags)}]" if self.tags else ""
        return f"{self.key}{tags}: {self.text}"

    @overload
    def parse(self, type: "type[Value]") -> Value: ...
    @overload
    def parse(self, type: Any) -> Any: ...
    def parse(self, type: Any) -> Any:
        """Return the value as one of a type.

        Args:
            type: The type: a pydantic model, a dataclass, `list[str]`, any that pydantic validates.

        Raises:
            MemoryValueError: It is none of the type.
        """
        return load_value(self.value, type, self.key)


class RecalledRecord(MemoryRecord, frozen=True, kw_only=True):
    """A record that was recalled, and the reason. As text, its score and parts as well.

    Args:
        score: Its score for the query; the records with the greatest ones are recalled.
        parts: The parts of the score: `words`, `key` and `tags` of the lexical one, `lexical` and `semantic`
            of a hybrid one.
    """

    score: float = 0.0
    parts: Mapping[str, float] = {}

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:g}" for name, value in self.parts.items())
        return f"({self.score:g}{': ' if parts else ''}{parts}) {super().__str__()}"


class MemoryEvent(Struct, frozen=True, kw_only=True):
    """An event of the log of a memory.

    Args:
        number: Its number in the namespace, from 1.
        operation: The operation.
        at: Its time, in UTC.
        ids: The ids of the records that it is about.
        record: The record that was stored; None for other operations.
    """

    number: int
    operation: Literal["store", "forget", "erase"]
    at: datetime
    ids: tuple[str, ...]
    record: MemoryRecord | None = None


class Forgotten(Struct, frozen=True, kw_only=True):
    """The result of `Memory.forget`.

    Args:
        count: The number of records that are not recalled any more.
        ids: Their ids.
    """

    count: int
    ids: tuple[str, ...]


class ErasureReceipt(Struct, frozen=True, kw_only=True):
    """The result of `Memory.erase`: what was deleted, and how far.

    Args:
        id: The id of the erasure in the log.
        namespace: The namespace.
        at: The time, in UTC.
        ids: The ids of the records that were deleted.
        versions: The number of records in the log that were deleted, older versions included.
        terms: The number of entries of the index that were deleted.
        vectors: The number of vectors that were deleted, those of queries included.
        is_purged: Whether the file was rewritten as well, so that nothing is left in its unused pages and in
            its write-ahead log; False where other connections kept that from happening.
    """

    id: str
    namespace: str
    at: datetime
    ids: tuple[str, ...]
    versions: int
    terms: int
    vectors: int
    is_purged: bool


class MemorySummary(ShownAsText, Struct, frozen=True, kw_only=True):
    """A bounded list of records as text.

    Args:
        count: The number of records in it.
        text: A line for each.
        records: The records.
    """

    count: int
    text: str
    records: tuple[MemoryRecord, ...]

    def __str__(self) -> str:
        return self.text
