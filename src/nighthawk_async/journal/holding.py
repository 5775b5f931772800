"""The hold before an effect that no earlier life has recorded, beside recorded calls that may still come.

A task that was started by hand takes its place by its arguments. A call with other arguments is then a call
at another place, and the recorded one is never reached. So is the call of a task that is served before
another one. An effect must not be made before that is noticed.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

from anyio import from_thread

from ..parallel.event_loop import is_loop_thread, is_worker_thread
from ..parallel.patience import PatientEvent
from ..parallel.settling import wait_settled
from .delivery import Delivery
from .errors import JournalDivergenceError
from .frames import are_in_one_task, effect_of_intent, is_within
from .records import Record, RecordIndex, read_intent

_MOST_SECONDS = 60.0
"""The longest wait for one recorded call, whatever time the earlier life had needed until it."""

_SLACK_SECONDS = 2.0
"""The time beyond that of the earlier life."""


class Holding:
    """The recorded calls that an effect waits for.

    Args:
        index: The records of earlier lives.
        delivery: The order of their arrivals, which knows what has ended.
        is_active: Whether anything is held.
    """

    def __init__(self, index: RecordIndex, delivery: Delivery, *, is_active: bool) -> None:
        self._is_active = is_active
        self._index = index
        self._delivery = delivery
        self._effects: dict[str, list[Record]] | None = None  # by function: what is not known to be reached

    async def hold(self, place: str, inputs: Mapping[str, str]) -> None:
        """Wait until no recorded call may still come that the effect of a place could stand for.

        Args:
            place: The place of the effect, which has no record.
            inputs: The digests of its arguments, by name.

        Raises:
            JournalDivergenceError: A recorded call is not reached. The effect was not begun.
        """
        while (expected := self._find_expected(place)) is not None:
            event = self._wait_for(expected)
            with self._held(), self._delivery.waking(event):
                if not await event.wait():
                    raise self._divergence(place, inputs, expected)

    async def let_others_hold(self, place: str) -> None:
        """Wait for effects that went on in the same moment as the one of a place, and are held now."""
        if self._is_active and not self._delivery.has_all:
            await wait_settled()
            await self._delivery.wait_until_over(place, is_effect=True)

    def hold_in_thread(self, place: str, inputs: Mapping[str, str]) -> None:
        """Wait as `hold` does, and block the thread; on that of an event loop, raise at once."""
        in_worker = not self._index.is_empty and is_worker_thread()
        while (expected := self._find_expected(place, in_worker=in_worker)) is not None:
            event = self._wait_for(expected)
            with self._held(), self._delivery.waking(event):
                if is_loop_thread() or not event.wait_in_thread():
                    raise self._divergence(place, inputs, expected)

    def let_others_hold_in_thread(self, place: str) -> None:
        """Wait as `let_others_hold` does, and block the thread."""
        if self._is_active and not self._delivery.has_all and is_worker_thread():
            from_thread.run(wait_settled)
            self._delivery.wait_until_over_in_thread(place, is_effect=True)

    @contextmanager
    def _held(self) -> Generator[None, None, None]:
        """Let nothing new begin meanwhile: it would be made, and the divergence be noticed after it."""
        self._delivery.begin_hold()
        is_divergence = False
        try:
            yield
        except JournalDivergenceError:
            is_divergence = True
            raise
        finally:
            self._delivery.end_hold(is_divergence=is_divergence)

    def _wait_for(self, expected: Record) -> PatientEvent:
        seconds = min(_MOST_SECONDS, self._index.seconds_until(expected)) + _SLACK_SECONDS
        place = effect_of_intent(expected.place)
        return PatientEvent(
            seconds,
            lambda: self._delivery.moves,  # a long replay takes its time
            is_over=lambda: not self._may_come(place) and expected not in self._index.lost_after(),
        )

    def _find_expected(self, place: str, *, in_worker: bool = False) -> Record | None:
        """The first recorded call that may still come, and that the effect of a place may stand for.

        Args:
            place: The place of the effect.
            in_worker: Whether a worker thread makes it: then the code that waits for the thread comes to none
                of its own recorded calls meanwhile.
        """
        if not self._is_active or self._index.is_empty:
            return None
        if lost := self._index.lost_after():
            return lost[0]
        parent, _, frame = place.rpartition("/")
        if "~" not in frame:
            for lost in self._index.lost_in(parent):
                if not self._delivery.is_closed(lost.place):
                    return lost
        for left in self._index.left_beside(place, in_worker=in_worker):
            if self._may_come(left.place):
                return left
        return next(self._siblings(place, _function_of(frame)), None)

    def _siblings(self, place: str, name: str) -> Iterator[Record]:
        """The recorded effects of the same function in other tasks."""
        if self._effects is None:
            self._effects = {}
            for record in self._index.of_kind("intent"):
                if not self._index.is_paid(record) or self._index.is_after_end(record):
                    continue  # it was not made, or the life that made it was ending
                effect = effect_of_intent(record.place)
                self._effects.setdefault(_function_of(effect.rpartition("/")[2]), []).append(record)
        left = self._effects.get(name)
        if not left:
            return
        left[:] = [each for each in left if self._may_come(effect_of_intent(each.place))]
        for each in left:
            effect = effect_of_intent(each.place)
            if not are_in_one_task(effect, place) and not is_within(place, effect):
                yield each

    def _may_come(self, place: str) -> bool:
        """Whether a recorded place is not reached, and can be."""
        index = self._index
        return not (
            index.is_reached(place) or index.is_interchanged(place) or self._delivery.is_closed(place)
        )

    def _divergence(self, place: str, inputs: Mapping[str, str], expected: Record) -> JournalDivergenceError:
        recorded = read_intent(expected).inputs
        differing = [name for name, digest in recorded.items() if inputs.get(name, digest) != digest]
        name = _function_of(place.rpartition("/")[2])
        which = f" Different are: {', '.join(f'<{each}>' for each in differing)}." if differing else ""
        return JournalDivergenceError(
            f"{place}: the effect {name} is new there, and an earlier life has recorded "
            f"{effect_of_intent(expected.place)}, which this life has not reached: the same call may have "
            f"got other arguments, or another task came first.{which} Nothing was begun. The order in which "
            "tasks are served must not decide the arguments of an effect: use "
            "nighthawk_async.parallel.stream, nighthawk_async.open_tasks or an actor. Guard new code with "
            'nighthawk_async.journal.patched(name), or open the journal with changes="insert".',
            place=place,
        )


def _function_of(frame: str) -> str:
    """The function of a frame, with whatever arguments: `book()`."""
    return frame.rpartition("[")[0].partition("~")[0]
