"""The cassettes of tests: their files, and the modes in which they are opened. Imported only by pytest.

PYTEST_DONT_REWRITE: it has no assertions, and may be imported before pytest registers it.
"""

import hashlib
import re
import tempfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from ..kernel.environment import using_source_everywhere
from ..recording.redaction import Redaction
from ..types.json import is_list_or_tuple
from .cassettes import Cassette, CassetteMode

_FOLDER = "cassettes"
_MARKER = "cassette"
_MAX_NAME_CHARACTERS = 100
_EVENT_LOOPS = ("asyncio", "trio")
_LOOP_PARAMETERS = ("anyio_backend", "event_loop_policy", "_asyncio_loop_factory")
"""The parameters by which AnyIO and pytest-asyncio run a test on several event loops."""

_recorded = pytest.StashKey[set[Path]]()


@contextmanager
def open_cassette(
    item: Any, *, mode: CassetteMode, redactions: Iterable[Redaction]
) -> Generator[Cassette, None, None]:
    """Open the cassette of a test, for the whole program.

    Tests that differ in their event loop only share a file. One of them records it, also if they run at the
    same time in several processes, and the others replay it.

    Args:
        item: The test.
        mode: The option `--record`.
        redactions: What is not written.
    """
    file = _file_of(item)
    recorded = item.config.stash.setdefault(_recorded, set())
    if mode == "all" and file in recorded:
        mode = "new"
    with ExitStack() as stack:
        if mode != "none":
            stack.enter_context(_lock_of(file))
        tape = Cassette(file, mode=mode, redactions=tuple(redactions), activate=using_source_everywhere)
        yield stack.enter_context(tape)
    if tape.recorded:
        recorded.add(file)


def _file_of(item: Any) -> Path:
    """Return the file of a test's cassette."""
    folder = item.path.parent / _FOLDER
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        return _file_by_name(item, folder / item.path.stem)
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or marker.kwargs:
        raise pytest.UsageError(f"{item.nodeid}: the marker {_MARKER} takes one argument, the file.")
    return folder / marker.args[0]


def _file_by_name(item: Any, folder: Path) -> Path:
    """Return the file of a test without the marker; the one of its event loop alone if that exists."""
    owners = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    file, file_of_loop = (
        folder / f"{_file_name('.'.join([*owners, name]))}.yaml"
        for name in (_name_without_event_loop(item), item.name)
    )
    return file_of_loop if file_of_loop.exists() and not file.exists() else file


def _name_without_event_loop(item: Any) -> str:
    """Return the name of a test without the id of its event loop."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    edges = {len(parameters) - 1: -1, 0: 0}  # where the ids have dashes, only these are certain
    base, bracket, ids = item.name.partition("[")
    for position, (name, value) in enumerate(parameters.items()):
        if not bracket or not _is_event_loop(name, value):
            continue
        parts = ids.removesuffix("]").split("-")
        own = value[0] if is_list_or_tuple(value) and value else value
        edge = edges.get(position)
        if own in parts and (edge is None or parts[edge] != own):
            parts.remove(own)
        elif edge is not None:
            del parts[edge]
        return f"{base}[{'-'.join(parts)}]" if parts else base
    return item.name


def _is_event_loop(name: str, value: object) -> bool:
    return name in _LOOP_PARAMETERS or (name == "backend" and value in _EVENT_LOOPS)


def _file_name(test_name: str) -> str:
    """Return a file name for a test, valid on every system; with a digest if it would be ambiguous."""
    safe = re.sub(r"[^A-Za-z0-9_.=+\[\]-]", "-", test_name)[:_MAX_NAME_CHARACTERS]
    _, _, parameters = safe.partition("[")
    if safe == test_name and parameters == parameters.lower():
        return safe
    return f"{safe}-{hashlib.sha256(test_name.encode(errors='surrogatepass')).hexdigest()[:6]}"


def _lock_of(file: Path) -> FileLock:
    """Return the lock of a file among the processes that record, such as those of pytest-xdist."""
    digest = hashlib.sha256(str(file.absolute()).encode(errors="surrogatepass")).hexdigest()[:24]
    return FileLock(Path(tempfile.gettempdir(), f"nighthawk-cassette-{digest}.lock"))
