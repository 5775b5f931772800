"""Progress that a program, or a model, reports from inside of its work."""

import math

from ..observation import PROGRESS, PROGRESS_DONE, PROGRESS_TOTAL, NodeWriter, find_node_writer
from ..types.execution import OUTSIDE_RUNS
from .environment import find_environment
from .events import ProgressReported, report_at_once

_MAX_CHARACTERS = 1_000


def progress(message: str = "", *, done: float | None = None, total: float | None = None) -> None:
    """Report how far the current work is: a function, a tool, a step.

    It is shown in the live tree at the node of this work, in the terminal, on the dashboard, in event
    streams, and to clients of served tools, as long as the work goes on; hooks get `ProgressReported`. It
    returns at once, and works in synchronous and async code and in worker threads. Outside of runs, without
    observers, it does nothing.

    Args:
        message: What is being done.
        done: The number of units that are done, at least 0.
        total: The number of units that there are, at least `done`; None if that is not known.

    Raises:
        TypeError: The message is no text, or a number is none.
        ValueError: A number is negative or not finite, `done` is more than `total`, there is a total without
            `done`, or nothing is given at all.
        HookError: A hook failed. Hooks for it must be `def`.
    """
    report_progress(find_node_writer(), message, done=done, total=total)


def report_progress(
    node: NodeWriter | None, message: str, *, done: float | None = None, total: float | None = None
) -> None:
    """Report the progress of a node; see `progress`."""
    _check(message, done, total)
    shown = message[:_MAX_CHARACTERS]
    if node is not None:
        text = " ".join(part for part in (shown, _of(done, total)) if part)
        numbers = {
            PROGRESS_DONE: "" if done is None else done,
            PROGRESS_TOTAL: "" if total is None else total,
        }
        node.set_attributes({PROGRESS: text, **numbers})
    environment = find_environment()
    ref = OUTSIDE_RUNS if environment is None else environment.execution_ref
    report_at_once(ProgressReported(execution_ref=ref, message=shown, done=done, total=total))


def _of(done: float | None, total: float | None) -> str:
    if done is None:
        return ""
    return f"({done:.6g})" if total is None else f"({done:.6g} of {total:.6g})"


def _check(message: str, done: float | None, total: float | None) -> None:
    kind: type = type(message)
    if not issubclass(kind, str):
        raise TypeError(f"progress: the message must be a text, not {type(message).__name__}")
    for name, number in (("done", done), ("total", total)):
        if number is None:
            continue
        if type(number) not in (int, float):
            raise TypeError(f"progress: {name} must be a number, not {type(number).__name__}")
        if not math.isfinite(number) or number < 0:
            raise ValueError(f"progress: {name} must be finite and not negative, not {number}")
    if done is None and total is not None:
        raise ValueError("progress: a total needs the number that is done")
    if done is not None and total is not None and done > total:
        raise ValueError(f"progress: done ({done}) must not be more than total ({total})")
    if not message and done is None:
        raise ValueError("progress: give a message, or the number that is done")
