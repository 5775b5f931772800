"""Facts: claims with evidence and confidence, each of which is one record whoever states it again."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from ..sealed_attributes import Sealed
from . import calls
from .engine import Engine
from .errors import MemoryValueError
from .orders import (
    checked_confidence,
    checked_tags,
    fact_predicate as chosen_facts,
    recall_order,
    store_order,
)
from .records import Forgotten, MemoryRecord, RecalledRecord, RecallMode
from .values import write_json

FactKind: TypeAlias = Literal["observation", "claim", "hypothesis", "decision", "constraint"]
"""The kind of a fact."""

_SCHEMA = "nighthawk.fact.v1"


class _Evidence(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TraceEvidence(_Evidence):
    """Evidence in a trace: a run, and a place in it."""

    type: Literal["trace"] = "trace"
    run_id: str = Field(min_length=1)
    place: str = ""


class FileEvidence(_Evidence):
    """Evidence in a file: a path, and its first and last lines, from 1."""

    type: Literal["file"] = "file"
    path: str = Field(min_length=1)
    first_line: int | None = Field(default=None, ge=1)
    last_line: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> "FileEvidence":
        if self.last_line is not None and (self.first_line is None or self.last_line < self.first_line):
            raise ValueError("last_line is not before first_line")
        return self


class ToolEvidence(_Evidence):
    """Evidence in the output of a tool."""

    type: Literal["tool"] = "tool"
    tool: str = Field(min_length=1)
    output: str


class UserEvidence(_Evidence):
    """Evidence in the words of a user."""

    type: Literal["user"] = "user"
    text: str = Field(min_length=1)


Evidence: TypeAlias = Annotated[
    TraceEvidence | FileEvidence | ToolEvidence | UserEvidence, Field(discriminator="type")
]
"""Evidence for a fact."""


class Fact(BaseModel):
    """A fact.

    Args:
        id: Its id: that of its kind, claim, evidence and provenance.
        kind: Its kind.
        claim: The claim, as a sentence.
        evidence: The evidence for it.
        confidence: The confidence in it, from 0 to 1.
        provenance: The source.
        valid_until: The time from which it is not recalled; None for never.
        asserted_at: The time at which it was stored.
        tags: The tags.
        score: Its score for the query that it was recalled by; None otherwise.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    kind: FactKind
    claim: str
    evidence: tuple[Evidence, ...]
    confidence: float
    provenance: str
    valid_until: datetime | None
    asserted_at: datetime
    tags: tuple[str, ...] = ()
    score: float | None = None


class _Stored(BaseModel):
    """A fact as the value of a record."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: FactKind
    claim: str = Field(min_length=1, max_length=10_000)
    evidence: tuple[Evidence, ...] = ()
    provenance: str = ""

    @property
    def id(self) -> str:
        return hashlib.sha256(write_json(self.model_dump(mode="json")).encode()).hexdigest()[:32]


class Facts:
    """The facts of a memory; see `Memory.facts`."""

    _engine = Sealed[Engine]()

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __repr__(self) -> str:
        return f"Facts(namespace={self._engine.namespace!r})"

    async def store(
        self,
        kind: FactKind,
        claim: str,
        *,
        evidence: Iterable[Evidence] = (),
        confidence: float = 1.0,
        provenance: str = "",
        valid_until: datetime | None = None,
        tags: Iterable[str] = (),
    ) -> Fact:
        """Store a fact. One with the same kind, claim, evidence and provenance is the same fact: one record.

        Args:
            kind: The kind: `observation`, `claim`, `hypothesis`, `decision` or `constraint`.
            claim: The claim, as a sentence.
            evidence: The evidence for it: traces, files, outputs of tools, words of users.
            confidence: The confidence in it, from 0 to 1. Another one than before takes its place.
            provenance: The source.
            valid_until: The time from which it is not recalled, with a time zone; None for never.
            tags: The tags.

        Raises:
            MemoryValueError: It is no fact; the text numbers what is wrong.
            MemoryUseError: Another argument cannot be used.
            JournalStoreError: The store cannot be written.
        """
        fact = _checked(kind, claim, evidence, provenance)
        order = store_order(
            f"fact:{fact.kind}:{fact.id}",
            fact.model_dump(mode="json"),
            tags=_tags_of(fact, checked_tags(tags)),
            id=fact.id,
            provenance=provenance,
            valid_until=valid_until,
            kind=fact.kind,
            confidence=checked_confidence(confidence, "confidence"),
        )
        return _fact(await calls.store(self._engine, order))

    async def recall(
        self,
        query: str = "",
        *,
        k: int = 5,
        kind: FactKind | None = None,
        min_confidence: float | None = None,
        tags: Iterable[str] = (),
        mode: RecallMode | None = None,
    ) -> list[Fact]:
        """Return the facts that fit a query best; see `Memory.recall`.

        Args:
            query: The query; empty for the latest facts.
            k: The most facts.
            kind: The kind; None for any.
            min_confidence: The least confidence; None for any.
            tags: Tags, all of which a fact must have.
            mode: The mode; None for that of the memory.

        Raises:
            MemoryUseError: An argument cannot be used.
            EmbeddingError: There is no embedding, or its vectors do not fit.
            JournalStoreError: The store cannot be read.
        """
        standard: RecallMode = "lexical" if self._engine.embedding is None or not query else "hybrid"
        order = recall_order(
            query,
            k=k,
            mode=mode or standard,
            tags=("fact", *checked_tags(tags)),
            kind=kind,
            min_confidence=min_confidence,
        )
        return [_fact(record) for record in await calls.recall(self._engine, order)]

    async def invalidate(
        self,
        *,
        id: str | None = None,
        kind: FactKind | None = None,
        claim: str | None = None,
        evidence: str | None = None,
        tag: str | Iterable[str] | None = None,
        query: str | None = None,
    ) -> Forgotten:
        """Recall some facts no more. They stay in the log.

        Args:
            id: The id of the fact.
            kind: The kind.
            claim: The claim, exactly.
            evidence: A text that one piece of its evidence has, such as a path.
            tag: A tag, or several, all of which a fact must have.
            query: A part of its text, in either case. What is given must match in all.

        Raises:
            MemoryUseError: Nothing is given, or an argument cannot be used.
            JournalStoreError: The store cannot be written.
        """
        chosen = chosen_facts(id=id, kind=kind, claim=claim, evidence=evidence, tag=tag, query=query)
        return await calls.forget(self._engine, chosen)


# Rules that ask about or deny a method of the memory hold for its facts; see `permissions.callables.SAME_AS`.
for _method, _same in ((Facts.store, "store"), (Facts.recall, "recall"), (Facts.invalidate, "forget")):
    _method.__dict__["__nighthawk_same_as__"] = (f"Memory.{_same}",)


def _checked(kind: str, claim: str, evidence: Iterable[object], provenance: str) -> _Stored:
    given = {"kind": kind, "claim": claim, "provenance": provenance}
    try:
        pieces = _EVIDENCE.validate_python(tuple(evidence))
        return _Stored.model_validate({**given, "evidence": pieces})
    except (ValidationError, TypeError) as error:
        problems = _problems(error) if isinstance(error, ValidationError) else [str(error)]
        shown = " ".join(f"{number}. {problem}" for number, problem in enumerate(problems, 1))
        raise MemoryValueError(f"this is no fact: {shown}") from None


_EVIDENCE: TypeAdapter[tuple[Evidence, ...]] = TypeAdapter(tuple[Evidence, ...])


def _problems(error: ValidationError) -> list[str]:
    return [f"{'.'.join(map(str, each['loc'])) or 'evidence'}: {each['msg']}." for each in error.errors()]


def _tags_of(fact: _Stored, tags: Sequence[str]) -> tuple[str, ...]:
    kinds = dict.fromkeys(f"evidence:{each.type}" for each in fact.evidence)
    return tuple(dict.fromkeys(("fact", fact.kind, _SCHEMA, *kinds, *tags)))


def _fact(record: MemoryRecord) -> Fact:
    stored: _Stored = record.parse(_Stored)
    own = set(_tags_of(stored, ()))
    return Fact(
        id=record.id,
        kind=stored.kind,
        claim=stored.claim,
        evidence=stored.evidence,
        confidence=1.0 if record.confidence is None else record.confidence,
        provenance=record.provenance,
        valid_until=record.valid_until,
        asserted_at=record.stored_at,
        tags=tuple(tag for tag in record.tags if tag not in own),
        score=record.score if isinstance(record, RecalledRecord) else None,
    )
