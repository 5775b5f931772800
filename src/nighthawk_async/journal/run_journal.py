"""The journal of one run, as the runtime uses it: steps, responses, tools and decisions at their places."""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import fields
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..ports import OpenSource
from ..runtime.stable_digest import stable_digests
from ..types.model import ModelEvent
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
)
from ..types.unset import UNSET
from .effects import tool_effect
from .errors import JournalDivergenceError, JournalError, check_inputs
from .questions import QuestionRecorder
from .recorder import ROOT
from .response import JournaledResponse
from .values import decode_value, encode_value

_OUTCOMES: Mapping[str, type[Any]] = {
    "pass": PassStepOutcome,
    "return": ReturnStepOutcome,
    "break": BreakStepOutcome,
    "continue": ContinueStepOutcome,
    "raise": RaiseStepOutcome,
}


class StepRecord(Struct, frozen=True, kw_only=True):
    """The body of the record of a step: its program's digest, and those of its inputs."""

    program: str
    inputs: dict[str, str]


class RunJournal(QuestionRecorder):
    """The journal of one run, as the runtime needs it; see `ports.RunJournal`."""

    def begin(self, root: str) -> None:
        """Begin a life; see `ports.RunJournal`."""
        self._root = root
        self._index.reach(ROOT)
        self._append([self._record(ROOT, "life", b"")])

    def find(self, place: str) -> tuple[int, ...] | None:
        """Return a kept decision; see `ports.RunJournal`."""
        place = self.relative(place)
        record = self._index.find(place, "decision") or self._index.find_passed(place, "decision")
        return None if record is None else msgspec.msgpack.decode(record.body, type=tuple[int, ...])

    def keep(self, place: str, decision: tuple[int, ...], *, is_failure: bool = False) -> None:
        """Keep a decision; see `ports.RunJournal`."""
        place = self.relative(place)
        body = msgspec.msgpack.encode(decision)
        if not is_failure:
            self.add(place, "decision", body)
            return
        with suppress(
            JournalError
        ):  # the error of the calls is raised, and the next record fails in the same way
            self.add_failure(place, "decision", body)

    def begin_step(self, place: str, program: str, inputs: Mapping[str, object]) -> None:
        """Record a step, or compare it with its record; see `ports.RunJournal`."""
        place = self.relative(place)
        digests = stable_digests(inputs)
        record = self._index.find(place, "step")
        if record is None:
            digest = hashlib.sha256(program.encode(errors="surrogatepass")).hexdigest()[:16]
            self.add(place, "step", msgspec.msgpack.encode(StepRecord(program=digest, inputs=digests)))
            return
        recorded = msgspec.msgpack.decode(record.body, type=StepRecord)
        check_inputs(place, "step", recorded.inputs, digests)

    def find_answer(self, place: str, types: Mapping[str, object]) -> object | None:
        """Return the answer of an executor; see `ports.RunJournal`."""
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
        return _OUTCOMES[given["kind"]](**given), values

    def keep_answer(self, place: str, answer: object, types: Mapping[str, object]) -> None:
        """Record the answer of an executor that asked no model here; see `ports.RunJournal`."""
        place = self.relative(place)
        if place in self._asked or self._index.find(place, "answer") is not None:
            return
        outcome, bindings = cast("tuple[object, Mapping[str, object]]", answer)
        bodies = {
            name: encode_value(value, place=f"{place}, <:{name}>", declared=types.get(name))
            for name, value in bindings.items()
        }
        values = {field.name: getattr(outcome, field.name) for field in fields(cast("Any", outcome))}
        given = {name: value for name, value in values.items() if value is not UNSET}
        body = encode_value(given, place=f"{place}, outcome")
        self.add(place, "answer", msgspec.msgpack.encode((body, bodies)))

    def respond(
        self,
        place: str,
        model_name: str,
        open_source: OpenSource,
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the response of a place; see `ports.RunJournal`."""
        place = self.relative(place)
        self._asked.add(place.rpartition("/")[0])
        return JournaledResponse(self, place, model_name, open_source)

    def wrap_tool(self, place: str, function: Callable[..., object], call: Callable[[], object]) -> Any:
        """Return the call of a tool; see `ports.RunJournal`."""
        return tool_effect(self, self.relative(place), function, call)

    def leave(self, place: str) -> None:
        """Check the regular end of a function; see `ports.RunJournal`."""
        place = self.relative(place)
        left = self._index.left_in(place)
        if left and self._new_code == "error":
            raise JournalDivergenceError(
                f"{place} has ended, and the journal has {left[0]} there too: the program has changed since. "
                'Open the journal with changes="insert" to go on without it.',
                place=f"{place}/{left[0]}",
            )

    def check_end(self) -> None:
        """Check the regular end of the run; see `leave`."""
        self.leave(self._root)
