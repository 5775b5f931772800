"""Idempotency keys of the jobs of a pool, and their lifetimes. Floor 1."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from .pool_handle import JobHandle
from .pool_job import Job

__all__ = ["REMEMBERED_JOBS", "KeyMemory", "Submitted"]

REMEMBERED_JOBS = 1_024
"""How many jobs with a key that have ended a pool remembers: those that ended, or were asked for, last."""


class Submitted(NamedTuple):
    """A job, and the one handle that everybody gets who submits it."""

    job: Job[Any]
    handle: JobHandle[Any]

    def hand_out(self) -> JobHandle[Any]:
        """Give the handle to one who submits it."""
        self.job.is_handed_out = True
        return self.handle


class KeyMemory:
    """The jobs that were submitted with a key."""

    def __init__(self) -> None:
        self._alive: dict[Hashable, Submitted] = {}
        self._ended: OrderedDict[Hashable, Submitted] = OrderedDict()

    def find(self, key: Hashable) -> Submitted | None:
        """The job of a key; None when the key is free."""
        if key is None:
            return None
        submitted = self._alive.get(key)
        if submitted is None and (submitted := self._ended.get(key)) is not None:
            self._ended.move_to_end(key)
        return submitted

    def remember(self, submitted: Submitted) -> None:
        """A job was submitted."""
        key = submitted.job.idempotency_key
        if key is not None:
            self._alive[key] = submitted

    def end(self, job: Job[Any]) -> None:
        """A job has ended, or was never taken. Its key is free when its body never ran."""
        key = job.idempotency_key
        submitted = self._alive.pop(key, None)
        if submitted is None or not job.has_begun:
            return
        self._ended[key] = submitted
        if len(self._ended) > REMEMBERED_JOBS:
            self._ended.popitem(last=False)
