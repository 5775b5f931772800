"""Reports actors, supervised functions, pools and their jobs to observers."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Literal

from ..observation import NodeState, NodeWriter, find_node_writer, using_node_writer

_name_of_class = type.__dict__["__name__"].__get__  # even if a metaclass overrides it


class LivesNode:
    """Reports something that may live several times, from its first life to its end. Later lives are retries.

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
        self._last_error: Exception | None = None  # of the current life

    @contextmanager
    def life(self) -> Generator[None, None, None]:
        """Enclose one life, in the task that lives it: nodes that the task begins are below it."""
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
        """End it now, at the request of an observer."""
        self._is_cancelled, self._last_error = True, None
        self._stop_now()

    def end(self) -> None:
        """Report that it ended permanently, with the state of its last life."""
        if self._node is None:
            return
        ending: NodeState = "cancelled" if self._is_cancelled else "completed"
        self._node.end(ending if self._last_error is None else "failed", error=self._last_error)


def begin_pool(name: str | None, max_concurrent: int) -> NodeWriter | None:
    """Begin the node of a pool; return None when there are no observers."""
    parent = find_node_writer()
    if parent is None:
        return None
    attributes = {"nighthawk.pool.max_concurrent": max_concurrent}
    return parent.begin_child("pool", name or "pool", attributes=attributes)


def end_pool(node: NodeWriter | None, leaving: BaseException | None) -> None:
    """End the node of a pool; `leaving` is the exception that leaves its block, None without one."""
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
    """Begin the node of a job that the pool has taken and that waits for a worker.

    Args:
        pool: The node of the pool.
        job_id: The job.
        function: The function to call.
        args: Its arguments.
        cancel: Cancels the job, with a reason.
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
    """End the node of a job.

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
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__
