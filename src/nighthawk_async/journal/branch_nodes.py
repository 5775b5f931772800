"""The facts about one place of a run, as a node of the tree shows them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

from ..kernel.tools import OUTCOME_TOOL_NAME
from ..observation import NodeKind, NodeState
from ..observe.views import ErrorView, TranscriptPart
from ..recording.exchange import RecordedCall, RecordedError, RecordedExchange
from ..types.usage import Usage
from .description import shown_value
from .effect_call import EndedCall
from .errors import JournalValueError
from .frames import is_limit
from .mailboxes import ReceivedMessages
from .questions import QuestionRecord
from .recorded_errors import CallFailure
from .records import Record, RecordKind
from .run_journal import StepRecord
from .values import decode_value

_MOST_CHARACTERS = 2_000
_GROUPS = frozenset({"ensemble", "gather", "map", "race", "settle", "stream", "vote"})
_FOLDED = frozenset({"begun", "failed", "lost", "taken", "withdrawn"})
"""Frames that say something about the place that they are in."""


class Branch:
    """A place of a run, with its records and the places in it. All records are added before it is read.

    Args:
        place: The place.
        parent: The place that it is in; None for the run itself.
    """

    def __init__(self, place: str, parent: "Branch | None") -> None:
        self.place = place
        self.parent = parent
        self.frame = place.rpartition("/")[2]
        name, _, number = self.frame.removesuffix("]").rpartition("[")
        self.name = name.partition("~")[0] + ("()" if "~" in name and name.endswith("()") else "")
        number = number.partition(".")[0]  # in a life of a call on a worker, that of the whole run
        self.number = int(number) if number.isdecimal() else 0
        self.records: dict[RecordKind, Record] = {}
        self.children: dict[str, Branch] = {}
        self.first: Record | None = None
        self.last: Record | None = None
        self.before: Record | None = None  # the last record of the parent before the first one here
        self._last_but_one: Record | None = None

    def add(self, record: Record) -> None:
        """Add a record of this place, or of one in it."""
        branch = self
        branch._note(record, None)
        for frame in record.place.split("/")[1:]:
            before = branch._last_but_one
            if frame not in branch.children:
                branch.children[frame] = Branch(f"{branch.place}/{frame}", branch)
            branch.children[frame]._note(record, before)
            branch = branch.children[frame]
        branch.records[record.kind] = record

    def _note(self, record: Record, before: Record | None) -> None:
        if self.first is None:
            self.first, self.before = record, before
        self._last_but_one, self.last = self.last, record

    def shown(self) -> list["Branch"]:
        """The places in it that have a node of their own, in the order of their first records."""
        found: list[Branch] = []
        for child in self.children.values():
            if (
                child.name in _FOLDED
                or is_limit(child.frame)
                or (self.is_question and child.name in ("answer", "vote"))
                or (self.name == "turn" and child.name == "batch")
            ):
                continue
            if child.attempts:
                found += child.attempts
            else:
                found.append(child)
        known = {child.frame for child in found}
        return found + [
            Branch(f"{self.place}/call[{number}]", self)
            for number in range(len(self.calls))
            if f"call[{number}]" not in known
        ]

    @property
    def attempts(self) -> list["Branch"]:
        """The attempts at a step; they take its place in the tree."""
        return [child for child in self.children.values() if child.name == "attempt"]

    @property
    def is_question(self) -> bool:
        """Whether people are asked here."""
        return "question" in self.records

    @cached_property
    def decision(self) -> tuple[int, ...] | None:
        """The numbers of the items that counted, also if the program handled an error; None while open."""
        handled = [
            each.records["decision"]
            for each in self.numbered("failed")
            if {"decision", "handled"} <= each.records.keys() and "unhandled" not in each.records
        ]
        record = self.records.get("decision", handled[-1] if handled else None)
        return None if record is None else msgspec.msgpack.decode(record.body, type=tuple[int, ...])

    @cached_property
    def exchange(self) -> RecordedExchange | None:
        """The recorded response to a request; None for none."""
        record = self.records.get("response")
        return None if record is None else msgspec.msgpack.decode(record.body, type=RecordedExchange)

    @cached_property
    def calls(self) -> list[tuple["Branch", RecordedCall]]:
        """The calls that the responses of a step ask for, with the request of each, in order."""
        turns = [(turn, turn.exchange) for turn in self.numbered("turn")]
        return [(turn, call) for turn, exchange in turns if exchange for call in _calls(exchange)]

    def numbered(self, name: str) -> list["Branch"]:
        """The places of a name in it, by their numbers."""
        found = [child for child in self.children.values() if child.name == name]
        return sorted(found, key=lambda child: child.number)


@dataclass(slots=True, kw_only=True)
class NodeFacts:
    """The facts about a place.

    Args:
        kind: The kind of its node.
        name: The name.
        began_at: The time of its beginning, in seconds since 1970.
        ended_at: The time of the last record in it.
        is_ended: Whether its records say that it has ended.
        open_state: Its state while it has not.
        inputs: Its inputs, as texts.
        outputs: Its outputs, as texts.
        error: The error that it has ended with.
        usage: Its usage by model.
        retries: The number of errors before its end.
        transcript: The texts of the model.
    """

    kind: NodeKind
    name: str
    began_at: float = 0.0
    ended_at: float = 0.0
    is_ended: bool = False
    open_state: NodeState = "running"
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    error: ErrorView | None = None
    usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    retries: int = 0
    transcript: list[TranscriptPart] = field(default_factory=list[TranscriptPart])


def facts_of(branch: Branch, moment: float) -> NodeFacts:
    """Return the facts about a place.

    Args:
        branch: The place.
        moment: The time of the last record that counts, in seconds since 1970.
    """
    facts = _named(branch, moment)
    first, last = branch.first, branch.last
    if first is None or last is None:  # a call that left no record
        turn = _turn_of_call(branch)
        facts.began_at = facts.ended_at = moment if turn is None or turn.last is None else turn.last.at
        facts.is_ended = True
        return facts
    begins = branch.before if branch.name == "turn" and branch.before is not None else first
    facts.began_at, facts.ended_at = begins.at, min(last.at, moment)
    if branch.name == "sleep()" and "value" in branch.records:
        facts.ended_at = max(facts.began_at, min(moment, _number_in(branch.records["value"])))
    return facts


def _named(branch: Branch, moment: float) -> NodeFacts:
    name, records = branch.name, branch.records
    if name == "turn":
        return _request(branch)
    if name == "call":
        return _call(branch)
    if branch.is_question:
        return _question(branch)
    if name.partition("#")[1] or name == "attempt":
        return _step(branch)
    if name in _GROUPS or "decision" in records:
        return NodeFacts(kind="group", name=name)
    if name in ("receive()", "receive_batch()") and "value" in records:
        return _receive(branch)
    if name == "sleep()" and "value" in records:
        return _sleep(branch, moment)
    if name.endswith(")"):
        return _function(branch)
    return NodeFacts(kind="task", name=f"{name}[{branch.number}]" if name == "item" else name)


def _function(branch: Branch) -> NodeFacts:
    facts = NodeFacts(kind="function", name=branch.name.removesuffix("()"))
    value = branch.records.get("value")
    if value is not None:
        facts.is_ended, facts.outputs = True, {"value": _value(value.body)}
    _add_result(facts, branch)
    return facts


def _step(branch: Branch) -> NodeFacts:
    block = branch.parent if branch.name == "attempt" and branch.parent is not None else branch
    facts = NodeFacts(kind="step", name=block.name)
    step, answer = branch.records.get("step"), branch.records.get("answer")
    if step is not None:
        inputs = msgspec.msgpack.decode(step.body, type=StepRecord).inputs
        facts.inputs = {"": ", ".join(inputs)} if inputs else {}
    if answer is not None:
        facts.is_ended = True
        _, bindings = msgspec.msgpack.decode(answer.body, type=tuple[bytes, dict[str, bytes]])
        facts.outputs = {name: _value(body) for name, body in bindings.items()}
    facts.retries = branch.number - 1 if branch.name == "attempt" else 0
    for turn in branch.numbered("turn"):
        if turn.exchange is not None:
            facts.transcript += _transcript(turn.exchange)
        facts.is_ended = facts.is_ended or _ends_step(turn)
    return facts


def _ends_step(turn: Branch) -> bool:
    """Whether a response has the outcome of its step; one that was refused is followed by another request."""
    if turn.exchange is None or (turn.parent and f"turn[{turn.number + 1}]" in turn.parent.children):
        return False
    calls = _calls(turn.exchange)
    return not calls or any(call.name == OUTCOME_TOOL_NAME for call in calls)


def _request(branch: Branch) -> NodeFacts:
    facts = NodeFacts(kind="model_request", name="request")
    failures = [each.records["failure"] for each in branch.numbered("failed") if "failure" in each.records]
    exchange = branch.exchange
    facts.retries = len(failures) if exchange is not None else max(0, len(failures) - 1)
    if exchange is None and failures:
        error = msgspec.msgpack.decode(failures[-1].body, type=RecordedError)
        facts.error = ErrorView(type=error.type, message=_cut(error.message))
    if exchange is None:
        return facts
    facts.name, facts.is_ended = exchange.model, True
    facts.usage = {exchange.model: _usage_of(exchange)}
    facts.transcript = list(_transcript(exchange))
    texts = "".join(part.text or "" for part in exchange.response)
    names = [call.name for call in _calls(exchange)]
    shown = {"text": _cut(texts), "tool_calls": ", ".join(names)}
    facts.outputs = {name: value for name, value in shown.items() if value}
    return facts


def _usage_of(exchange: RecordedExchange) -> Usage:
    usage = exchange.consumed if exchange.consumed is not None else exchange.usage
    return Usage(requests=1, is_complete=False) if usage is None else msgspec.convert(usage, Usage)


def _transcript(exchange: RecordedExchange) -> Iterator[TranscriptPart]:
    for part in exchange.response:
        if part.text:
            yield TranscriptPart(kind="text", text=part.text)
        if part.reasoning:
            yield TranscriptPart(kind="reasoning", text=part.reasoning)
        call = part.tool_call or part.unfinished_tool_call
        if call is not None:
            yield TranscriptPart(kind="tool_call", text=call.arguments, key=f"{call.name}#{call.id}")


def _calls(exchange: RecordedExchange) -> list[RecordedCall]:
    return [part.tool_call for part in exchange.response if part.tool_call is not None]


def _turn_of_call(branch: Branch) -> Branch | None:
    calls = [] if branch.parent is None else branch.parent.calls
    return calls[branch.number][0] if branch.number < len(calls) else None


def _call(branch: Branch) -> NodeFacts:
    facts = NodeFacts(kind="tool_call", name="call")
    step = branch.parent
    calls = [] if step is None else step.calls
    if step is not None and branch.number < len(calls):
        turn, call = calls[branch.number]
        facts.name, facts.inputs = call.name, {"": _cut(call.arguments)}
        facts.is_ended = f"turn[{turn.number + 1}]" in step.children or _ends_step(turn)
    _add_result(facts, branch)
    return facts


def _add_result(facts: NodeFacts, branch: Branch) -> None:
    record = branch.records.get("result")
    if record is None:
        return
    ended = msgspec.msgpack.decode(record.body, type=EndedCall)
    facts.is_ended = True
    if ended.failure is not None:
        facts.error = _error_of(ended.failure)
    elif ended.refusal:
        facts.error = ErrorView(type="JournalValueError", message=_cut(ended.refusal))
    else:
        facts.outputs = {"result": _value(ended.value)}


def _error_of(failure: CallFailure) -> ErrorView:
    message = ""
    if failure.content:
        try:
            content: Any = decode_value(failure.content, place="")
            is_whole = failure.parts or failure.is_registered
            message = str(content) if is_whole else ", ".join(map(str, content[0]))
        except JournalValueError:  # of a type that only the program registers
            pass
    return ErrorView(type=failure.name, message=_cut(message))


def _question(branch: Branch) -> NodeFacts:
    facts = NodeFacts(kind="question", name="ask_user", open_state="waiting")
    if branch.name == "approval()":
        facts.name = "request_approval"
    asked = msgspec.msgpack.decode(branch.records["question"].body, type=QuestionRecord)
    facts.inputs = {name: _value(part) for name, part in asked.content.items()}
    given = [*branch.numbered("vote"), *branch.numbered("answer")]
    facts.outputs = {
        each.frame.partition("[")[0] if each.name == "answer" else f"vote {each.number + 1}": _value(
            each.records["value"].body
        )
        for each in given
        if "value" in each.records
    }
    end = branch.records.get("value")
    if end is not None:
        facts.outputs["end"] = _value(end.body)
    facts.is_ended = end is not None or "answer" in facts.outputs
    failed = [each.records["result"] for each in branch.numbered("failed") if "result" in each.records]
    if failed and not facts.is_ended:
        failure = msgspec.msgpack.decode(failed[-1].body, type=EndedCall).failure
        facts.error = None if failure is None else _error_of(failure)
    return facts


def _receive(branch: Branch) -> NodeFacts:
    facts = NodeFacts(kind="function", name=branch.name.removesuffix("()"), open_state="waiting")
    name, _ = decode_value(branch.records["value"].body, place="")
    facts.inputs = {"": str(name)}
    record = branch.records.get("message")
    if record is not None:
        received = msgspec.msgpack.decode(record.body, type=ReceivedMessages)
        facts.is_ended = True
        if received.messages:
            names = ["message"] if len(received.messages) == 1 else map(str, range(len(received.messages)))
            facts.outputs = {
                name: _value(each.body) for name, each in zip(names, received.messages, strict=True)
            }
        else:
            facts.error = ErrorView(type="TimeoutError", message=f"no message {received.name!r} came in time")
    return facts


def _sleep(branch: Branch, moment: float) -> NodeFacts:
    wakes_at = _number_in(branch.records["value"])
    until = datetime.fromtimestamp(wakes_at, UTC).isoformat(sep=" ", timespec="seconds")
    return NodeFacts(
        kind="function",
        name="sleep",
        inputs={"until": until},
        open_state="waiting",
        is_ended=wakes_at <= moment,
    )


def _number_in(record: Record) -> float:
    number: object = decode_value(record.body, place=record.place)
    return float(number) if isinstance(number, int | float) else record.at


def _value(body: bytes) -> str:
    return _cut(shown_value(body))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
