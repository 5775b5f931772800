"""The journal of one run, as the runtime uses it: steps, responses, tools and decisions at their places."""

import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import fields
from functools import lru_cache
from typing import Any, NoReturn, cast

import msgspec
from msgspec import Struct

from ..causes import ends_run, leaves_of
from ..journal_ports import RecordedAnswer, StepInputs
from ..kernel.calls import unnamed_digests
from ..kernel.reports import LifeBegun
from ..parallel import CallCancelledError, TaskCancelledError
from ..ports import OpenSource
from ..recording.exchange import RecordedExchange, is_cached
from ..tracing import find_trace_parent, note_event
from ..types.model import ModelEvent
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
)
from ..types.unset import UNSET
from ..values.stable_digest import VERSION, digests_of_version_1, stable_digests
from .effects import tool_effect
from .errors import JournalDivergenceError, JournalError, check_inputs, refuse_inputs
from .frames import counted_place, is_combinator, is_within, lost_place
from .questions import QuestionRecorder
from .recorder import NO_DECISION, ROOT
from .records import Record, life_body
from .response import JournaledResponse
from .values import decode_value

_logger = logging.getLogger("nighthawk")

_ENDED_BY_TIME = (JournalError, TimeoutError, TaskCancelledError, CallCancelledError)

_CONVERTED = "converted"
"""The key of the names of converted values, beside the fields of an outcome."""

_OUTCOMES: Mapping[str, type[Any]] = {
    "pass": PassStepOutcome,
    "return": ReturnStepOutcome,
    "break": BreakStepOutcome,
    "continue": ContinueStepOutcome,
    "raise": RaiseStepOutcome,
}


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of the record of a step: its program's digest, and those of its inputs.

    Args:
        program: The digest of the program, which may change.
        inputs: The digests of what its author names.
        version: The version of the digests.
        unnamed: The digests of the other arguments; see `journal_ports.StepInputs`.
        text: The digests of the values in its text.
    """

    program: str
    inputs: dict[str, str]
    version: int = 1
    unnamed: dict[str, str] = {}
    text: dict[str, str] = {}


@lru_cache(maxsize=256)  # the text of a block is mostly the same in each of its steps
def _program_digest(program: str) -> str:
    return hashlib.sha256(program.encode(errors="surrogatepass")).hexdigest()[:16]


def check_step(place: str, recorded: StepRecord, inputs: StepInputs) -> None:
    """Compare the inputs of a step with those that were recorded, by the rule of the record.

    Args:
        place: The place of the step.
        recorded: The record.
        inputs: The present inputs.

    Raises:
        JournalDivergenceError: They differ.
    """
    if recorded.version == 1:
        read = {name: inputs.named[name] for name in inputs.read_names}
        check_inputs(place, "step", recorded.inputs, digests_of_version_1(read))
        return
    known = {**recorded.unnamed, **recorded.inputs}  # a name may have been added to the text since
    named, unnamed = stable_digests(inputs.named), unnamed_digests(inputs.unnamed)
    differing = [f"<{name}>" for name, digest in named.items() if known.get(name) != digest]
    differing += [
        f"the argument {name!r}" for name, digest in unnamed.items() if known.get(name, digest) != digest
    ]
    text = stable_digests(inputs.text)
    if list(text.values()) != list(recorded.text.values()):  # else the interpolations are written otherwise
        differing += [
            f"the value of {name} in its text" if name else "the text of the step"
            for name, digest in text.items()
            if recorded.text.get(name) != digest
        ]
    if differing:
        refuse_inputs(place, "step", differing)


class RunJournal(QuestionRecorder):
    """The journal of one run, as the runtime needs it; see `journal_ports.RunJournal`."""

    def begin(self, root: str) -> None:
        """Begin a life; see `journal_ports.RunJournal`."""
        self._root = root
        self._index.reach(ROOT)
        trace_parent = find_trace_parent()
        if self._uncounted:
            self._warn_of_uncounted()
        self._write((ROOT, "life", life_body(trace_parent, self.identity_version)))
        note_event(LifeBegun(life=self.epoch, first_trace_parent=self._index.trace_parent))

    def _warn_of_uncounted(self) -> None:
        """Say what models were asked in vain: money was spent, and no budget has it."""
        tokens = 0
        for record in self._uncounted:
            exchange = msgspec.msgpack.decode(record.body, type=RecordedExchange)
            usage = exchange.consumed or exchange.usage or {}
            tokens += usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        _logger.warning(
            "run %s: lives whose program had changed have asked models %d times (%d tokens). That counts for "
            "no usage and no budget of the run, which goes on as if there had been no such lives.",
            *(self.run_id, len(self._uncounted), tokens),
        )

    def find(self, place: str) -> tuple[int, ...] | None:
        """Return a kept decision; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        record = self._index.find(place, "decision")
        if record is None:
            record = self._index.find_handled(place, "decision")
            if record is None:
                return None
            self.note_raised(record.place, None)
        decision = msgspec.msgpack.decode(record.body, type=tuple[int, ...])
        calls = place.rpartition("/taken[")[0] or place
        if is_combinator(calls.rpartition("/")[2]):
            for index in decision:
                self._index.begin_decided(f"{calls}/item[{index}]")
        return decision

    def keep(self, place: str, decision: tuple[int, ...], *, is_failure: bool = False) -> None:
        """Keep a decision; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        body = msgspec.msgpack.encode(decision)
        if not is_failure:
            calls = place.rpartition("/taken[")[0] or place
            for index in decision:  # the program gets their results, and their errors
                self.handled_in(f"{calls}/item[{index}]")
            self.add(place, "decision", body)
            return
        with suppress(JournalError):  # the next record fails, too
            self.add_failure(place, "decision", body, None)

    def count_time(self, place: str) -> float:
        """Count the time of a limit; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        self._write((counted_place(place, self.life), "decision", NO_DECISION))
        return self._index.seconds_counted(place, "decision")

    def was_passed(self, place: str) -> bool:
        """Whether an earlier life came further in a place; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        return self.is_behind(place) or self._index.has(place, "answer")

    async def begin_work(self, place: str, step: bytes | None) -> None:
        """Wait until a step may ask, and record it; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if not self._index.knows(f"{place}/turn[0]"):
            await self.begin_new(place)
        if step is not None:
            self.add(place, "step", step)

    def begin_step(self, place: str, program: str, inputs: StepInputs) -> bytes | None:
        """Return the record of a step, or compare it with that; see `journal_ports.RunJournal`.

        What waits to begin is not recorded yet: if the program turns out to have changed, its records would
        be in the way of the program before the change (`test_changed_programs`).
        """

        def check(record: Record) -> None:
            check_step(record.place, msgspec.msgpack.decode(record.body, type=StepRecord), inputs)

        def find(place: str) -> Record | None:
            return self._index.find(place, "step")

        place = self.beside_cleanup.find_place(self.relative(place), find, check)
        record = find(place)
        with self.delivery.noting_divergence():
            if record is not None:
                check(record)
                self.delivery.reach(place)
                return None
            if not self.gate.is_driven(place):
                self.check_new(place)
        step = StepRecord(
            program=_program_digest(program),
            inputs=self.known_objects.digests(place, "step", inputs.named),
            version=VERSION,
            unnamed=unnamed_digests(inputs.unnamed),
            text=self.known_objects.digests(place, "text", inputs.text),
        )
        return msgspec.msgpack.encode(step)

    def find_answer(self, place: str, types: Mapping[str, object]) -> RecordedAnswer | None:
        """Return the answer of an executor; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        record = self._index.find(place, "answer")
        if record is None:
            return None
        outcome, bindings = msgspec.msgpack.decode(record.body, type=tuple[bytes, dict[str, bytes]])
        given = decode_value(outcome, place=place)
        values = {
            name: decode_value(body, place=f"{place}, <:{name}>", declared=types.get(name))
            for name, body in bindings.items()
        }
        converted = tuple(given.pop(_CONVERTED, ()))
        outcome_given = _OUTCOMES[given["kind"]](**given)
        return RecordedAnswer(outcome=outcome_given, bindings=values, converted=converted)

    async def deliver_answer(self, place: str) -> None:
        """Wait for the turn of a recorded answer; see `journal_ports.RunJournal`."""
        record = self._index.find(self.relative(place), "answer")
        if record is not None:
            await self.delivery.deliver(record)

    async def deliver_decision(self, place: str) -> None:
        """Wait for the turn of a kept decision; see `parallel.task_node.Decisions`."""
        place = self.relative(place)
        record = self._index.find(place, "decision") or self._index.find_handled(place, "decision")
        if record is not None:
            await self.delivery.deliver(record)

    def items_in(self, place: str) -> frozenset[int]:
        """Return the calls of a group that had begun; see `parallel.task_node.Decisions`."""
        return self._index.items_in(self.relative(place))

    def drive(self, place: str) -> None:
        """Let a call end with its records; see `parallel.task_node.Decisions`."""
        self.gate.drive(self.relative(place))

    def close(self, place: str) -> None:
        """Note that calls have ended, in whatever way; see `parallel.task_node.Decisions`."""
        self._close(self.relative(place))

    def keep_answer(
        self, place: str, answer: object, types: Mapping[str, object], converted: Collection[str]
    ) -> None:
        """Record the answer of an executor that asked no model here; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if self._new_code == "error":
            self._refuse_left(place, self._left_in(place))
        if place in self._asked or self._index.find(place, "answer") is not None:
            return
        outcome, bindings = cast("tuple[Any, Mapping[str, object]]", answer)
        bodies = {
            name: self.encode_value(value, place=f"{place}, <:{name}>", declared=types.get(name))
            for name, value in bindings.items()
        }
        values = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
        given = {name: value for name, value in values.items() if value is not UNSET}
        if converted:
            given[_CONVERTED] = list(converted)
        body = self.encode_value(given, place=f"{place}, outcome")
        self.add(place, "answer", msgspec.msgpack.encode((body, bodies)))

    def respond(
        self,
        place: str,
        model_name: str,
        open_source: OpenSource,
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the response of a place; see `journal_ports.RunJournal`."""
        self._asked.add(self.relative(place).rpartition("/")[0])
        return JournaledResponse(self, place, model_name, open_source)

    def find_cached(self, place: str) -> bool | None:
        """Return whether a recorded response was cached; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if not self.has_response(place):
            return None
        record = self._index.find(place, "response")
        return record is not None and is_cached(msgspec.msgpack.decode(record.body, type=RecordedExchange))

    def has_counted(self, place: str) -> bool:
        """Return whether a recorded response has counted; see `journal_ports.RunJournal`."""
        return False  # the program reaches a place once in each life

    def wrap_tool(self, place: str, function: Callable[..., object], call: Callable[[], object]) -> Any:
        """Return the call of a tool; see `journal_ports.RunJournal`."""
        return tool_effect(self, self.relative(place), function, call)

    def begins_only(self, place: str, items: Sequence[int]) -> None:
        """Note that only some calls of a combinator are begun; see `parallel.task_node.Decisions`."""
        self.orders.keep_items(self.relative(place), items)

    def leave(self, place: str, *, is_recorded: bool = False) -> None:
        """Check the regular end of a function; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if self._new_code == "error":
            self._refuse_left(place, self._left_in(place))
            self._refuse_cut(place)
            self._index.note_lost(place)
            if is_recorded:
                self._check_lost(place)
        self.handled_in(place)

    def _left_in(self, place: str) -> list[str]:
        """The frames of a place that this life has not reached, without steps that had only begun."""
        return [
            frame
            for frame in self._index.left_in(place)
            if any(each.kind != "step" for each in self._index.records_in(f"{place}/{frame}"))
        ]

    def _refuse_cut(self, place: str) -> None:
        """Refuse that a place has ended, although a call in it failed before what it had recorded."""
        if self._cut_short:
            with self.delivery.noting_divergence():
                self.refuse_cut(lambda cut: is_within(cut, place), place)

    def _check_lost(self, place: str) -> None:
        lost = self._index.lost_after(place)
        if lost:
            first = lost[0].place.removeprefix(f"{place}/")
            self._refuse_left(place, [first], ", which a task that was started by hand has not reached")

    def _refuse_left(self, place: str, left: Sequence[str], what: str = "") -> None:
        if left:
            with self.delivery.noting_divergence():
                raise JournalDivergenceError(
                    f"{place} has ended, and the journal has {left[0]} there too{what}: the program has "
                    'changed since. Open the journal with changes="insert" to go on without it.',
                    place=f"{place}/{left[0]}",
                )

    def ended(self, place: str) -> None:
        """Note that a part of the run has ended regularly; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if self._new_code == "error":
            self._refuse_left(place, self._left_in(place))
            self._refuse_cut(place)
            self._index.note_lost(place)
        self.handled_in(place)

    def all_ended(self, place: str) -> None:
        """Check the regular end of calls or tasks; see `parallel.task_node.Decisions`."""
        place = self.relative(place)
        if self._new_code == "error":
            left = self._left_in(place) or self._index.unbegun_in(place, self.delivery.is_closed)
            self._refuse_left(place, left)
            self._refuse_cut(place)
        self.handled_in(place)

    def miss(self, place: str) -> None:
        """Refuse that a call which counted is not there; see `parallel.task_node.Decisions`."""
        if self._new_code == "error":
            calls, _, frame = self.relative(place).rpartition("/")
            self._refuse_left(calls, [frame])

    def failed(self, place: str, error: Exception) -> None:
        """Note that a function, an item or a task has failed; see `journal_ports.RunJournal`.

        Where time has ended it, it need not have come as far as in an earlier life.
        """
        place = self.relative(place)
        if self._new_code != "error" or not self._index.has_below(place) or self.gate.is_driven(place):
            return
        if any(isinstance(each, _ENDED_BY_TIME) for each in leaves_of(error)) or ends_run(error):
            return
        if self._index.knows(lost_place(place)):
            return  # that error is recorded, and what the workers had recorded is not gone through again
        if left := self._left_in(place):
            self._cut_short.append(f"{place}/{left[0]}")

    def raised(self, place: str, to: str | None = None) -> None:
        """Note that errors are raised in another place; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        self._index.forget_lost(place)
        self.delivered(place, None if to is None else self.relative(to))

    def refuse(self, place: str) -> NoReturn:
        """Refuse calls that ended otherwise; see `parallel.task_node.Decisions`."""
        place = self.relative(place)
        error = JournalDivergenceError(
            f"{place}: a call failed in an earlier life, the program went on, and now the call succeeded. "
            "Everything that a run reads from outside has to be the same in each of its lives: decorate what "
            "failed with nighthawk_async.once or repeatable, which record errors.",
            place=place,
        )
        self.delivery.diverge(str(error))
        raise error

    def check_end(self) -> None:
        """Check the regular end of the run; see `leave`.

        Raises:
            JournalDivergenceError: The program has changed. It may have handled the error that said so.
        """
        self.leave(self._root, is_recorded=True)
        self.delivery.check_same(ROOT, "it has not ended, whatever the program did with the error")
