"""The first of several steps that change an object goes on; the others are shown what it has become.

A step has seen what it binds when it begins, when its own code has changed it, and when it is shown. As soon
as another step changes one of these objects, what this step's model decided may rest on an old value. So its
next call that mentions the object is not made, and one that changes anything it binds is undone, together
with what the calls of the same response have changed before. The error shows the objects as they are now;
the calls of the model's next response are made. A step that called another one knows what that one changes.

Nothing is undone that another step has changed since.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from ...configuration import StepContextLimits
from ...kernel.commands import Command, Resume
from ...prompt.sections import render_section
from ...prompt.token_estimate import estimate_tokens
from ...prompt.tokens import CountTokens, TokenCounter
from ...types.execution import ExecutionRef
from .bound_objects import (
    BoundObjects,
    ConcurrentMutationError,
    MutationReport,
    MutationWatch,
    ObjectStates,
    Watched,
    restore,
)

_GUIDANCE = "Decide again from these values, and repeat what is still right."
_NOT_MADE = "this call was not made"
_UNDONE = "what this call changed was undone"
_NOT_UNDONE = "not all that this call changed could be undone"
_LIMITS = StepContextLimits(locals_max_tokens=2_000)


class OutdatedObjectError(ConcurrentMutationError):
    """The error that the model sees when another step was first, in a run with `concurrent_mutation="first"`.

    Args:
        report: The report of the other step's change.
        end: The fate of the call.
        values: The objects as they are now, as lines of a prompt.
        is_restored: Whether what the step has changed was undone.
    """

    def __init__(self, report: MutationReport, *, end: str, values: str, is_restored: bool) -> None:
        super().__init__(report, is_restored=is_restored)
        self.message = (
            f"another step was first: step {report.step.step_id} has changed '{report.path}' "
            f"({report.object_type}), so {end}. Now it is:\n{values}"
        )
        self.args = (self.message,)
        self.guidance = _GUIDANCE


class _News(Struct, kw_only=True, eq=False):
    """A change by another step that the model may not know.

    Args:
        writer: The other step.
        watched: The object as this step has seen it.
        shown_turn: The turn in which the model is shown it; None for none yet.
    """

    writer: ExecutionRef
    watched: Watched
    shown_turn: int | None = None


class _Change(Struct, kw_only=True, eq=False):
    """A change by the step's own code: the object before the first one in a turn, and after the last."""

    before: Watched
    after: Watched


class FirstWriter:
    """The knowledge of one step about the objects that it shares.

    Args:
        bound: What the step binds.
        turn: Returns the number of the step's turns; always 0 for an executor without turns, whose calls then
            count as a turn each.
    """

    __slots__ = ("_bound", "_changes", "_news", "_seen", "_turn", "_turn_of_changes")

    def __init__(self, bound: BoundObjects, turn: Callable[[], int]) -> None:
        self._bound = bound
        self._turn = turn
        self._seen = ObjectStates(())
        self._news: dict[int, _News] = {}
        self._changes: dict[int, _Change] = {}
        self._turn_of_changes = 0

    @contextmanager
    def in_flight(self) -> Generator[None]:
        """Bind the objects of the step, and hear of changes by others, during the `with` statement."""
        with self._bound:
            self._seen = ObjectStates(self._bound.held())
            _IN_FLIGHT[self._bound] = self
            try:
                yield
            finally:
                del _IN_FLIGHT[self._bound]

    def begin(self, command: Command) -> None:
        """Begin a command.

        Raises:
            OutdatedObjectError: It mentions an object that another step has changed.
        """
        if isinstance(command, Resume):  # a part of a command that has begun
            return
        turn = self._turn()
        if turn != self._turn_of_changes or turn == 0:
            self._changes.clear()
            self._turn_of_changes = turn
        self._news = {key: news for key, news in self._news.items() if _is_news(news, turn)}
        if self._news:
            read = command.reads()
            mentioned = [each for each in self._news.values() if each.watched.root.name.split(".")[0] in read]
            if mentioned:
                raise self._refusal(mentioned, is_made=False)

    def open_watch(self) -> MutationWatch:
        """Begin to watch code of the step."""
        return MutationWatch(self._bound, self._bound.held())

    def settle(self, found: list[Watched]) -> OutdatedObjectError | None:
        """Settle the changes by the step's code: the step is the first, or another one was.

        Args:
            found: The changed objects, as they were before.

        Returns:
            The error if another step was first; None otherwise.
        """
        if not found:
            return None
        self._keep(found)
        changed = {id(each.value) for each in found}
        outdated = [
            news
            for key, news in self._news.items()
            if news.watched.root.other is not None or key in changed  # other locals matter if it changes them
        ]
        if outdated:
            return self._refusal(outdated, is_made=True)
        for caller in self._bound.callers:
            if caller in _IN_FLIGHT:
                _IN_FLIGHT[caller]._keep(found)
        self._see()
        self._tell(found)
        return None

    def _keep(self, found: Iterable[Watched]) -> None:
        """Keep what is needed to undo changes."""
        for watched in found:
            first = self._changes.get(id(watched.value))
            self._changes[id(watched.value)] = _Change(
                before=watched if first is None else first.before, after=_now(watched)
            )

    def _see(self) -> None:
        """Take the current state as seen, except for what the model has not been shown."""
        seen = ObjectStates(self._bound.held())
        for key, news in self._news.items():
            if news.shown_turn is None and key in seen.entries:
                seen.entries[key] = news.watched
        self._seen = seen

    def _tell(self, found: Iterable[Watched]) -> None:
        """Tell the other steps in flight that objects have changed."""
        writer = self._bound.context.execution_ref
        values = [each.value for each in found]
        for bound, other in list(_IN_FLIGHT.items()):
            if bound is not self._bound and bound not in self._bound.callers:
                other._hear(writer, values)

    def _hear(self, writer: ExecutionRef, values: Iterable[object]) -> None:
        for value in values:
            watched = self._seen.entries.get(id(value))
            if watched is not None:
                self._news[id(value)] = _News(writer=writer, watched=watched)

    def _refusal(self, outdated: list[_News], *, is_made: bool) -> OutdatedObjectError:
        """Undo what the step has changed in this turn, and make the error that shows the new values."""
        is_restored = self._undo()
        for news in self._news.values():
            news.shown_turn = self._turn()
        self._see()
        end = _NOT_MADE if not is_made else _UNDONE if is_restored else _NOT_UNDONE
        if not is_made and not is_restored:
            end = f"{_NOT_MADE}, and not all that this response changed before it could be undone"
        first, other = outdated[0], self._bound.context.execution_ref
        kind = type(first.watched.value)
        report = MutationReport(
            step=first.writer,
            binding=first.watched.root.name,
            path=first.watched.path,
            object_type=f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
            other_step=other,
            other_binding=first.watched.root.name,
            rival_step=None,
        )
        values = self._shown([news.watched.root.name.split(".")[0] for news in self._news.values()])
        return OutdatedObjectError(report, end=end, values=values, is_restored=is_restored)

    def _undo(self) -> bool:
        """Undo the changes of this turn, except where others have changed the object since."""
        changes, self._changes = list(self._changes.values()), {}
        done = [each for each in changes if not each.after.is_changed() and restore(each.before)]
        self._tell([each.before for each in done])
        return len(done) == len(changes)

    def _shown(self, names: Iterable[str]) -> str:
        context = self._bound.context
        scopes = (context.step_locals, context.step_globals)
        values = {name: next((each[name] for each in scopes if name in each), None) for name in names}
        section = render_section(
            values,
            section="locals",
            limits=_LIMITS,
            references=context.mentions,
            style="default",
            counter=_COUNTER,
        )
        return "".join(part for part in section.parts if isinstance(part, str))


_IN_FLIGHT: dict[BoundObjects, FirstWriter] = {}


def _is_news(news: _News, turn: int) -> bool:
    """Whether a change is still unknown to the model, and has not been undone."""
    if news.shown_turn is None:
        return news.watched.is_changed()
    return turn != 0 and news.shown_turn == turn


def _now(watched: Watched) -> Watched:
    """The object as it is now."""
    now = replace(watched, rival=None)
    now.rebase()
    return now


class _Estimating(TokenCounter):
    """Counts without a tokenizer, whose loading would hold the event loop."""

    __slots__ = ()

    def _loaded(self) -> CountTokens:
        return estimate_tokens


_COUNTER = _Estimating(encoding_name="o200k_base", is_own=False)
