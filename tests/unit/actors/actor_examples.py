"""Actors that tests talk to."""

from typing import ClassVar

import anyio

from nighthawk_async.actors import Actor


class Counter(Actor):
    """Counts, keeps a log of what happened to it, and crashes on request."""

    answers: ClassVar[tuple[type[Exception], ...]] = (LookupError,)

    def __init__(self, log: list[str] | None = None, *, gate: anyio.Event | None = None) -> None:
        self.total = 0
        self.log = [] if log is None else log
        self.gate = gate

    async def started(self) -> None:
        self.log.append("started")

    async def stopping(self) -> None:
        self.log.append("stopping")

    async def add(self, number: int) -> int:
        """Add a number; what it is in total."""
        before = self.total
        await anyio.lowlevel.checkpoint()  # where another task would slip in, if there was one
        self.total = before + number
        self.log.append(f"add {number}")
        return self.total

    async def wait(self, text: str = "wait") -> str:
        """Wait for the gate."""
        self.log.append(text)
        assert self.gate is not None
        await self.gate.wait()
        return text

    async def crash(self) -> None:
        """Fail."""
        raise ValueError("crash")

    async def miss(self) -> None:
        """Raise what is an answer only."""
        raise KeyError("miss")
