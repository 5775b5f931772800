"""Investigations: steps that go on after the request that began them, and that people steer and cancel."""

import logging
import secrets
from collections.abc import Iterator
from typing import Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import observe, parallel

from .functions import investigate

__all__ = ["Investigation", "Investigations", "TooManyInvestigationsError"]

LOGGER = logging.getLogger("triage")

Status: TypeAlias = Literal["pending", "running", "suspended", "completed", "failed", "cancelled"]

MAX_KEPT = 1_000
"""How many investigations that are over can be asked for."""


class TooManyInvestigationsError(Exception):
    """No further investigation can begin at present."""


class Investigation:
    """One step in the background.

    Args:
        ticket: What is investigated.
    """

    def __init__(self, ticket: str) -> None:
        self.id = secrets.token_urlsafe(12)
        """Whoever knows it may watch and steer the investigation."""
        self.node_id: str | None = None
        """Its node in the task tree; None before it has begun."""
        self.reply: str | None = None
        self.handle: nh.parallel.TaskHandle[None]
        self._ticket = ticket
        self._is_begun = anyio.Event()
        self._has_failed = False

    @property
    def status(self) -> Status:
        """How it goes."""
        return "failed" if self._has_failed else self.handle.status

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in ("completed", "failed", "cancelled")

    async def carry_out(self) -> None:
        """Investigate. What fails is told by the status: nobody waits for the result."""
        self.node_id = observe.find_node_id()
        self._is_begun.set()
        try:
            self.reply = await investigate(self._ticket)
        except nh.parallel.TaskCancelledError as error:
            self.handle.cancel(error.reason)  # somebody has cancelled the step on the dashboard
            await checkpoint()
        except nh.NighthawkError as error:
            LOGGER.warning("investigation %s has failed: %s", self.node_id, error)
            self._has_failed = True

    async def wait_begun(self) -> None:
        """Wait until it has a node."""
        await self._is_begun.wait()


class Investigations:
    """All investigations of the service.

    Args:
        tasks: Owns their tasks: they end with the service, not with the request that began them.
        max_running: How many may go on at once.
    """

    def __init__(self, tasks: parallel.Tasks, *, max_running: int) -> None:
        self._tasks = tasks
        self._max_running = max_running
        self._by_id: dict[str, Investigation] = {}

    @property
    def running(self) -> int:
        """How many go on."""
        return sum(1 for _ in self._going_on())

    def find(self, investigation_id: str) -> Investigation | None:
        """The investigation of that id; None when there is none, or no more."""
        return self._by_id.get(investigation_id)

    async def begin(self, ticket: str) -> Investigation:
        """Begin an investigation.

        Args:
            ticket: What is investigated.

        Raises:
            TooManyInvestigationsError: Too many go on.
        """
        if self.running >= self._max_running:
            raise TooManyInvestigationsError
        investigation = Investigation(ticket)
        investigation.handle = self._tasks.start(investigation.carry_out, name="investigation")
        self._by_id[investigation.id] = investigation
        self._forget_old()
        await investigation.wait_begun()
        return investigation

    def _going_on(self) -> Iterator[Investigation]:
        return (each for each in self._by_id.values() if not each.is_over)

    def _forget_old(self) -> None:
        surplus = len(self._by_id) - MAX_KEPT
        over = [each.id for each in self._by_id.values() if each.is_over]
        for investigation_id in over[: max(0, surplus)]:
            del self._by_id[investigation_id]
