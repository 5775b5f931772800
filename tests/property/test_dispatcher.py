"""The dispatcher of workers against a model of what it must keep, under any order of events."""

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nighthawk_async.distributed.dispatch import (
    SUSPICIOUS_LOSSES,
    Dispatcher,
    Effect,
    End,
    Kill,
    Place,
    Withdrawal,
)

MOST = 2
MAX_PLACEMENTS = 2
GRACE = 5.0


class DispatcherMachine(RuleBasedStateMachine):
    """Carries effects out on imagined workers, and keeps its own account of every call."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatcher: Dispatcher[int] = Dispatcher(
            max_concurrent_per_worker=MOST, max_placements=MAX_PLACEMENTS, grace_seconds=GRACE
        )
        self.now = 0.0
        self.workers: dict[int, set[int]] = {}
        self.closed: set[int] = set()
        self.killed: set[int] = set()
        self.waiting: list[int] = []
        self.suspects: list[int] = []  # those that wait to be placed alone
        self.withdrawn: dict[int, float] = {}
        self.lost: dict[int, int] = {}  # how often a call was lost with a worker that was not killed
        self.lost_alone: dict[int, int] = {}
        self.ended: dict[int, str] = {}
        self.submitted = 0
        self.made_workers = 0

    def carry_out(self, effects: list[Effect[int]]) -> None:
        for effect in effects:
            match effect:
                case Place(call=call, worker=worker) if self.is_suspect(call):
                    assert call == self.suspects.pop(0)
                    assert worker not in self.closed
                    assert not self.workers[worker]
                    self.workers[worker].add(call)
                    assert len(self.lone()) <= max(1, len(self.workers) // 2)
                    assert effect.attempt == self.lost[call]
                case Place(call=call, worker=worker):
                    assert call == self.waiting.pop(0)
                    assert worker not in self.closed | self.lone()
                    assert len(self.workers[worker]) == min(
                        len(calls)
                        for each, calls in self.workers.items()
                        if each not in self.closed | self.lone()
                    )
                    self.workers[worker].add(call)
                    assert effect.attempt == self.lost.get(call, 0)
                case Withdrawal(call=call, worker=worker):
                    assert call in self.workers[worker]
                case Kill(worker=worker):
                    assert worker not in self.killed
                    assert any(self.withdrawn.get(call, 1e9) <= self.now for call in self.workers[worker])
                    self.killed.add(worker)
                    self.closed.add(worker)
                case End(call=call, reason=reason):
                    assert call not in self.ended
                    if reason is None:
                        assert call in self.withdrawn
                    else:
                        assert self.lost_alone[call] == effect.lost_alone == MAX_PLACEMENTS
                        assert self.lost[call] == effect.placements <= MAX_PLACEMENTS + SUSPICIOUS_LOSSES
                    self.ended[call] = "cancelled" if reason is None else "lost"

    def is_suspect(self, call: int) -> bool:
        return self.lost.get(call, 0) >= SUSPICIOUS_LOSSES

    def lone(self) -> set[int]:
        """The workers that have a suspect."""
        return {worker for worker, calls in self.workers.items() if any(map(self.is_suspect, calls))}

    @rule()
    def submit(self) -> None:
        self.waiting.append(self.submitted)
        self.submitted += 1
        self.carry_out(self.dispatcher.submit(self.submitted - 1))

    @rule()
    def add_worker(self) -> None:
        worker = self.made_workers
        self.made_workers += 1
        self.workers[worker] = set()
        self.carry_out(self.dispatcher.add_worker(worker))

    @precondition(lambda self: any(self.workers.values()))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        worker, call = data.draw(
            st.sampled_from([(worker, call) for worker, calls in self.workers.items() for call in calls])
        )
        self.workers[worker].remove(call)
        self.ended[call] = "answered"
        self.carry_out(self.dispatcher.note_ended(call))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        call = data.draw(st.integers(0, self.submitted - 1))
        is_new = call not in self.ended and call not in self.withdrawn
        if is_new:
            self.withdrawn[call] = self.now + GRACE
        for waiting in (self.waiting, self.suspects):
            if call in waiting:
                waiting.remove(call)
        effects = self.dispatcher.withdraw(call, self.now)
        assert len(effects) == is_new
        self.carry_out(effects)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def close_worker(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        self.closed.add(worker)
        self.dispatcher.close_worker(worker)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def lose_worker(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        calls = self.dispatcher.calls_of(worker)
        again: list[int] = []
        for call in calls:
            if worker not in self.killed:
                self.lost[call] = self.lost.get(call, 0) + 1
                self.lost_alone[call] = self.lost_alone.get(call, 0) + (len(calls) == 1)
            if call not in self.withdrawn and self.lost_alone.get(call, 0) < MAX_PLACEMENTS:
                again.append(call)
        del self.workers[worker]
        self.waiting[:0] = [call for call in again if not self.is_suspect(call)]
        self.suspects += [call for call in again if self.is_suspect(call)]
        self.carry_out(self.dispatcher.lose_worker(worker, "gone"))
        assert self.dispatcher.lose_worker(worker, "gone") == []

    @rule(seconds=st.sampled_from([0.0, 1.0, GRACE]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.carry_out(self.dispatcher.take_due(self.now))
        assert self.dispatcher.next_due > self.now

    @invariant()
    def every_call_is_in_one_place(self) -> None:
        placed = [call for calls in self.workers.values() for call in calls]
        places = [*placed, *self.waiting, *self.suspects, *self.ended]
        assert sorted(places) == list(range(self.submitted))
        assert self.dispatcher.unfinished == len(placed) + len(self.waiting) + len(self.suspects)
        assert self.dispatcher.waiting == len(self.waiting) + len(self.suspects)
        assert self.dispatcher.workers == len(self.workers)

    @invariant()
    def workers_are_neither_full_nor_idle(self) -> None:
        for worker, calls in self.workers.items():
            assert len(calls) <= MOST
            assert calls == set(self.dispatcher.calls_of(worker))
            assert not self.waiting or worker in self.closed | self.lone() or len(calls) == MOST
            if calls or worker in self.closed:
                continue
            assert not self.suspects or len(self.lone()) >= max(1, len(self.workers) // 2)

    @invariant()
    def suspects_are_alone(self) -> None:
        for worker in self.lone():
            assert len(self.workers[worker]) == 1


DispatcherMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
test_dispatcher = DispatcherMachine.TestCase
