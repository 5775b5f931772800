"""Schedules of askers, crashes, restarts and cancellations, and what each asker must have learnt.

Whatever is cancelled when, a message is handled at most once; an asker that got a reply knows that its
message was handled, one that was told that the actor has ended knows that it was not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    Actor,
    ActorEndedError,
    ActorHandle,
    ActorInterruptedError,
    Restart,
    RestartLimitError,
    Supervisor,
)

Answer: TypeAlias = Literal["reply", "crash", "ended", "interrupted", "cancelled", "wrong"]


class Handling(Actor):
    """Notes which messages it began to handle, and which it handled to the end.

    Args:
        world: Where to note it.
    """

    def __init__(self, world: "World") -> None:
        self.world = world

    async def handle_message(self, number: int, turns: int, *, is_crashing: bool) -> int:
        """Take some turns of the loop, then answer or crash."""
        self.world.begun[number] += 1
        for _ in range(turns):
            await checkpoint()
        if is_crashing:
            raise ValueError(number)
        self.world.done[number] += 1
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Start a task that asks or tells."""

    turns: int
    is_crashing: bool
    is_telling: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsker:
    """Cancel a task that asks."""

    asker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Let the tasks run for some turns of the loop."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The actor is closed or stopped, or its supervisor is."""

    how: Literal["close", "stop_now", "stop_supervisor", "cancel_supervisor"]


Step: TypeAlias = Send | CancelAsker | Turns | End


@dataclass(slots=True)
class World:
    """One supervised actor and its askers."""

    max_restarts: int
    capacity: int
    begun: Counter[int] = field(default_factory=Counter)
    done: Counter[int] = field(default_factory=Counter)
    answers: dict[int, Answer] = field(default_factory=dict)
    scopes: list[anyio.CancelScope] = field(default_factory=list)
    told: set[int] = field(default_factory=set)

    async def play(self, steps: Sequence[Step]) -> None:
        """Carry a schedule out and check what the askers learnt."""
        handles: list[ActorHandle[Handling]] = []
        restart = Restart(backoff_seconds=0, jitter_seconds=0)
        async with anyio.create_task_group() as task_group:
            try:
                async with Supervisor(max_restarts=self.max_restarts, grace_seconds=0) as supervisor:
                    make = partial(Handling, self)
                    handle = supervisor.start_actor("a", make, restart=restart, capacity=self.capacity)
                    handles.append(handle)
                    for step in steps:
                        await self._take(step, handle, supervisor, task_group)
            except RestartLimitError:
                pass
        (handle,) = handles
        assert handle.status == "ended"
        self._check(handle)

    async def _take(
        self, step: Step, handle: ActorHandle[Handling], supervisor: Supervisor, task_group: TaskGroup
    ) -> None:
        match step:
            case Send():
                task_group.start_soon(self._send, step, handle, len(self.scopes))
                self.scopes.append(anyio.CancelScope())
            case CancelAsker(asker=asker) if self.scopes:
                self.scopes[asker % len(self.scopes)].cancel()
            case Turns(count=count):
                for _ in range(count):
                    await checkpoint()
            case End(how="close"):
                handle.close()
            case End(how="stop_now"):
                handle.stop_now()
            case End(how="stop_supervisor"):
                await supervisor.stop()
            case _:
                pass

    async def _send(self, step: Send, handle: ActorHandle[Handling], number: int) -> None:
        answer: Answer = "cancelled"
        call = partial(Handling.handle_message, is_crashing=step.is_crashing)
        with self.scopes[number]:
            try:
                if step.is_telling:
                    self.told.add(number)
                    await handle.tell(call, number, step.turns)
                else:
                    assert await handle.ask(call, number, step.turns) == number
                answer = "reply"
            except ValueError as error:
                answer = "crash" if error.args == (number,) else "wrong"
            except ActorEndedError:
                answer = "ended"
            except ActorInterruptedError:
                answer = "interrupted"
        self.answers[number] = answer

    def _check(self, handle: ActorHandle[Handling]) -> None:
        for number, answer in self.answers.items():
            begun, done = self.begun[number], self.done[number]
            assert done <= begun <= 1
            match answer:
                case "reply" if number not in self.told:
                    assert done == 1
                case "crash" | "interrupted":
                    assert (begun, done) == (1, 0)
                case "ended":
                    assert begun == 0
                case _:
                    assert answer != "wrong"
        assert len(self.answers) == len(self.scopes)
        figures = handle.statistics()
        assert figures.handled == self.done.total()
        assert figures.handled + figures.failed == self.begun.total()
        assert figures.mailbox.depth == 0
        assert figures.mailbox.sent == self.begun.total() + figures.abandoned + figures.refused
