"""Tells whoever watches of actors, supervised functions, pools and their jobs."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Literal, cast

from ..observation import NodeState, NodeWriter, find_node_writer, using_node_writer

_name_of_class = type.__dict__["__name__"].__get__  # whatever a metaclass makes of it


class LivesNode:
    """Tells of what may live several times, from its first life to its end. A further life counts as a retry.

    Args:
        kind: The kind of the node.
        name: Its name.
        stop_now: Ends it.
    """

    __slots__ = ("_is_cancelled", "_kind", "_last_error", "_name", "_node", "_stop_now")

    def __init__(self, kind: Literal["actor", "task"], name: str, stop_now: Callable[[], object]) -> None:
        self._kind: Literal["actor", "task"] = kind
        self._name = name
        self._stop_now = stop_now
        self._node: NodeWriter | None = None
        self._is_cancelled = False
        self._last_error: Exception | None = None  # of the present life

    @contextmanager
    def life(self) -> Generator[None, None, None]:
        """The extent of one life, in the task that lives it: what that does is below it."""
        if self._node is not None:
            self._last_error, self._is_cancelled = None, False
            self._node.count_retry()
            self._node.change_state("running")
        elif (parent := find_node_writer()) is not None:
            self._node = parent.begin_child(self._kind, self._name, control=self)
        else:
            yield
            return
        try:
            with using_node_writer(self._node):
                yield
        except BaseException as error:
            if isinstance(error, Exception):
                self._last_error = error
                self._node.write("note", f"a life has ended with {_name_of_class(type(error))}\n")
            else:
                self._is_cancelled = True
            raise
        finally:
            self._node.change_state("waiting")

    def request_cancel(self, reason: str | None) -> None:
        """End it now, as whoever watches wants it."""
        self._is_cancelled, self._last_error = True, None
        self._stop_now()

    def end(self) -> None:
        """It has ended for good, as its last life did."""
        if self._node is None:
            return
        ending: NodeState = "cancelled" if self._is_cancelled else "completed"
        self._node.end(ending if self._last_error is None else "failed", error=self._last_error)


def begin_pool(name: str | None, max_concurrent: int) -> NodeWriter | None:
    """The node of a pool; None when nobody watches."""
    parent = find_node_writer()
    if parent is None:
        return None
    attributes = {"nighthawk.pool.max_concurrent": max_concurrent}
    return parent.begin_child("pool", name or "pool", attributes=attributes)


def end_pool(node: NodeWriter | None, leaving: BaseException | None) -> None:
    """A pool was left; what leaves its block is given, None when all went well."""
    if node is not None:
        state: NodeState = "failed" if isinstance(leaving, Exception) else "cancelled"
        node.end("completed" if leaving is None else state, error=leaving)


def begin_job(
    pool: NodeWriter,
    job_id: str,
    function: object,
    args: tuple[object, ...],
    cancel: Callable[[str | None], object],
) -> NodeWriter:
    """The node of a job that the pool has taken, and that waits for a worker.

    Args:
        pool: The node of the pool.
        job_id: The job.
        function: The function that it calls.
        args: With which arguments.
        cancel: Cancels it, for a reason.
    """
    return pool.begin_child(
        "job",
        _name_of(function),
        state="waiting",
        inputs={"arguments": args} if args else None,
        attributes={"nighthawk.job.id": job_id},
        control=_ControlledJob(cancel),
    )


def end_job(node: NodeWriter, phase: str, result: object, error: BaseException | None) -> None:
    """A job has ended.

    Args:
        node: Its node.
        phase: The status in which it ended, one of `pool_job.JobStatus`.
        result: The returned value.
        error: The error that it ended with; None when it returned.
    """
    if phase == "completed":
        node.end("completed", outputs={"return": result})
    else:
        node.end("cancelled" if phase == "cancelled" else "failed", error=error)


class _ControlledJob:
    """Control of a job by observers: it can be cancelled."""

    __slots__ = ("_cancel",)

    def __init__(self, cancel: Callable[[str | None], object]) -> None:
        self._cancel = cancel

    def request_cancel(self, reason: str | None) -> None:
        self._cancel(reason)


def _name_of(function: object) -> str:
    while isinstance(function, partial):
        function = cast("object", function.func)
    return getattr(function, "__name__", None) or type(function).__name__
