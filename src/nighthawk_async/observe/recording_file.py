"""Recordings in files: lines of JSON, one for each change of a node, written while the program runs.

The first line says what the file is; the last one, that the recording has ended. Every other line is a node
as `view_as_json` shows it, without the nodes below it; the last line about a node counts.
"""

import logging
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from .changes import Changes, NodeLines
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
