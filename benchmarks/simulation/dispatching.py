"""The dispatcher alone, with millions of calls: discrete events in virtual time around the real code."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TypeAlias

from nighthawk_async.distributed.dispatch import Dispatcher, Effect, End, Kill, Place, Withdrawal

from .cluster import Cluster, Fate

__all__ = ["Account", "simulate_dispatcher"]

Worker: TypeAlias = tuple[int, int]
"""The number of a worker, and of its life."""


@dataclass(slots=True, kw_only=True)
class Account:
    """What has happened, by the count of the simulation. Every call must have ended exactly once.

    Args:
        answered: The calls that a worker has answered.
        cancelled: The calls that ended cancelled.
        given_up: The calls whose workers were lost as often as they may be placed.
        placed: The placements of calls on workers.
        lost_workers: The workers that were lost.
        killed_workers: Those that were ended because of a call.
        greatest_queue: The greatest number of calls that waited for a worker.
        virtual_seconds: The virtual time that has passed.
        dispatcher_seconds: The processor time within the dispatcher.
        dispatches: The number of times that it was called.
        problems: What must never happen.
    """

    answered: int = 0
    cancelled: int = 0
    given_up: int = 0
    placed: int = 0
    lost_workers: int = 0
    killed_workers: int = 0
    greatest_queue: int = 0
    virtual_seconds: float = 0.0
    dispatcher_seconds: float = 0.0
    dispatches: int = 0
    problems: list[str] = field(default_factory=list[str])

    @property
    def ended(self) -> int:
        """The calls that have ended."""
        return self.answered + self.cancelled + self.given_up


def simulate_dispatcher(cluster: Cluster, calls: int, *, at_once: int | None = None) -> Account:
    """Make calls on a simulated cluster, and return what has happened.

    Args:
        cluster: The cluster.
        calls: The number of calls.
        at_once: The number of calls that are submitted and have not ended; None for as many as the workers
            can make, as `parallel.map` does.
    """
    simulation = _Simulation(cluster, calls, cluster.capacity if at_once is None else at_once)
    simulation.run()
    return simulation.account


class _Simulation:
    """The events of a cluster in virtual time."""

    def __init__(self, cluster: Cluster, calls: int, at_once: int) -> None:
        self.account = Account()
        self._cluster, self._calls, self._at_once = cluster, calls, at_once
        self._chance = random.Random(cluster.seed)
        self._dispatcher: Dispatcher[Worker] = Dispatcher(
            max_concurrent_per_worker=cluster.max_concurrent_per_worker,
            max_placements=cluster.max_placements,
            grace_seconds=cluster.grace_seconds,
        )
        self._now = 0.0
        self._order = count()
        self._events: list[tuple[float, int, str, int, Worker]] = []
        self._fates: dict[int, Fate] = {}
        self._running: dict[Worker, set[int]] = {}
        self._where: dict[int, Worker] = {}
        self._submitted = 0
        self._due = inf

    def run(self) -> None:
        for number in range(self._cluster.workers):
            self._later(0.0, "ready", number, (number, 0))
        while self._submitted < min(self._calls, self._at_once):
            self._submit()
        while self.account.ended < self._calls:
            if not self._events:
                self.account.problems.append("calls wait, and nothing happens any more")
                break
            self._now, _, kind, number, worker = heappop(self._events)
            getattr(self, f"_{kind}")(number, worker)
            while self._submitted < self._calls and self._dispatcher.unfinished < self._at_once:
                self._submit()
        self.account.virtual_seconds = self._now
        if self._dispatcher.unfinished != self._calls - self.account.ended:
            self.account.problems.append("the dispatcher counts other calls than the simulation")

    def _later(self, seconds: float, kind: str, number: int, worker: Worker) -> None:
        heappush(self._events, (self._now + seconds, next(self._order), kind, number, worker))

    def _latency(self) -> float:
        return self._chance.expovariate(1 / self._cluster.latency_seconds)

    def _submit(self) -> None:
        call = self._submitted
        self._submitted += 1
        fate = self._fates[call] = Fate.draw(self._cluster, self._chance)
        if fate.cancelled_after is not None:
            self._later(fate.cancelled_after, "cancel", call, (0, 0))
        self._dispatch(self._dispatcher.submit, call)
        self.account.greatest_queue = max(self.account.greatest_queue, self._dispatcher.waiting)

    def _dispatch(self, function: Callable[..., list[Effect[Worker]]], *args: object) -> None:
        """Call a method of the dispatcher, and carry its effects out."""
        begin = time.process_time()
        effects = function(*args)
        self.account.dispatcher_seconds += time.process_time() - begin
        self.account.dispatches += 1
        for effect in effects:
            self._carry_out(effect)
        due = self._dispatcher.next_due
        if due < self._due:
            self._due = due
            self._later(due - self._now, "grace_over", 0, (0, 0))

    def _carry_out(self, effect: Effect[Worker]) -> None:
        account = self.account
        match effect:
            case Place(call=call, worker=worker):
                account.placed += 1
                if call in self._where:
                    account.problems.append(f"call {call} is on two workers")
                self._where[call] = worker
                running = self._running[worker]
                running.add(call)
                if len(running) > self._cluster.max_concurrent_per_worker:
                    account.problems.append(f"worker {worker} has too many calls")
                self._later(2 * self._latency() + self._fates[call].seconds, "answer", call, worker)
            case Withdrawal(call=call, worker=worker):
                if not self._fates[call].is_stubborn:
                    self._later(2 * self._latency(), "stop", call, worker)
            case Kill(worker=worker):
                account.killed_workers += 1
                self._later(0.0, "die", 0, worker)
            case End(call=call, reason=reason):
                if reason is None:
                    account.cancelled += 1
                else:
                    account.given_up += 1
                self._end(call)

    def _end(self, call: int) -> None:
        if self._fates.pop(call, None) is None:
            self.account.problems.append(f"call {call} has ended twice")
        worker = self._where.pop(call, None)
        if worker in self._running:
            self._running[worker].discard(call)

    # The events: their names are those in the queue.

    def _ready(self, _: int, worker: Worker) -> None:
        self._running[worker] = set()
        self._later(self._chance.expovariate(1 / self._cluster.life_seconds), "die", 0, worker)
        self._dispatch(self._dispatcher.add_worker, worker)

    def _answer(self, call: int, worker: Worker) -> None:
        if self._where.get(call) == worker:
            self._end(call)
            self.account.answered += 1
            self._dispatch(self._dispatcher.note_ended, call)

    def _stop(self, call: int, worker: Worker) -> None:
        if self._where.get(call) == worker:
            self._end(call)
            self.account.cancelled += 1
            self._dispatch(self._dispatcher.note_ended, call)

    def _cancel(self, call: int, _: Worker) -> None:
        if call in self._fates:
            self._dispatch(self._dispatcher.withdraw, call, self._now)

    def _grace_over(self, _: int, __: Worker) -> None:
        self._due = inf
        self._dispatch(self._dispatcher.take_due, self._now)

    def _die(self, _: int, worker: Worker) -> None:
        calls = self._running.pop(worker, None)
        if calls is None:
            return
        self.account.lost_workers += 1
        for call in calls:
            del self._where[call]
        self._dispatcher.close_worker(worker)
        self._later(self._cluster.start_seconds, "ready", worker[0], (worker[0], worker[1] + 1))
        self._dispatch(self._dispatcher.lose_worker, worker, "lost")
