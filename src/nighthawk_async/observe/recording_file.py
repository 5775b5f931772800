"""Recordings in files: lines of JSON, one for each change of a node, written while the program runs.

The first line says what the file is; the last one, that the recording has ended. Every other line is a node
as `view_as_json` shows it, without the nodes below it; the last line about a node counts.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TextIO

from ..types.json import JsonableValue
from .changes import Changes, NodeLines
from .views import NodeView, view_as_json
from .watching import Watch

FORMAT = "nighthawk-async recording"
VERSION = 1
INTERVAL = 0.1  # seconds between two reads of the tree
_END_SECONDS = 10.0  # for the last lines, so that a disk that hangs does not keep the program from ending

_LOGGER = logging.getLogger("nighthawk")


@contextmanager
def writing_changes(watch: Watch, path: str | os.PathLike[str]) -> Generator[None, None, None]:
    """Write the changes of a tree to a file, from a thread, until the body has ended.

    Args:
        watch: Watches the whole tree; `INTERVAL` is the time between two views.
        path: The path of the file.

    Raises:
        OSError: The file cannot be opened.
    """
    output = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115  (closing it may fail)
    thread = threading.Thread(target=_write, args=(watch, output, path), name="recording", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.close()
        thread.join(_END_SECONDS)
        if thread.is_alive():
            _LOGGER.error("the recording %s is not complete: its disk does not answer", os.fspath(path))


def _write(watch: Watch, output: TextIO, path: str | os.PathLike[str]) -> None:
    try:
        with output:
            _write_lines(watch, output)
    except OSError as error:
        _LOGGER.error("the recording %s ends before the program: %s", os.fspath(path), error)
    finally:
        watch.close()


def _write_lines(watch: Watch, output: TextIO) -> None:
    lines, changes = NodeLines(output), Changes()
    lines.write_line({"format": FORMAT, "version": VERSION, "began_at": time.time()})
    output.flush()
    with watch as views:
        for root in views:
            lines.write(changes.until(root))
        lines.write(changes.until(watch.newest()))
    lines.finish()
    lines.write_line({"ended_at": time.time()})


def view_as_recording(view: NodeView, *, now: float | None = None) -> str:
    """Return a node and everything below it as a recording, in the lines that `recording(to=…)` writes.

    The command `nighthawk-async view` and `read_recording` show it from a file. Children that were dropped
    are missing in it, and their usage as well.

        Path("triage.jsonl").write_text(observe.view_as_recording(tree.snapshot()), encoding="utf-8")

    Args:
        view: The view.
        now: The time at which the recording ends, in Unix seconds; None for the current time.
    """
    ended_at = time.time() if now is None else now
    return "".join(f"{json.dumps(line)}\n" for line in _lines_of(view, ended_at))  # in ASCII, as in a file


def _lines_of(view: NodeView, ended_at: float) -> Iterator[dict[str, JsonableValue]]:
    yield {"format": FORMAT, "version": VERSION, "began_at": view.began_at}
    for node in view.walk():
        if node.kind == "tree":
            continue
        line = view_as_json(node, depth=0)
        yield {**line, "parent_id": "0"} if node is view else line
    yield {"ended_at": ended_at}
