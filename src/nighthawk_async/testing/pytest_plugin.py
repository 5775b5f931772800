"""A pytest plugin: a cassette for each test, and evaluations as tests. Imported only by pytest.

Opt in, in the topmost `conftest.py`:

    pytest_plugins = ["nighthawk_async.testing.pytest_plugin"]

PYTEST_DONT_REWRITE: it has no assertions, and may be imported before pytest registers it.
"""

import hashlib
import re
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from ..kernel.environment import using_source_everywhere
from ..natural.checking import check_paths
from ..recording.redaction import Redaction
from .cassettes import Cassette, CassetteMode

pytest_plugins = ["nighthawk_async.testing.pytest_evaluations"]

_FOLDER = "cassettes"
_MARKER = "cassette"
_MAX_NAME_CHARACTERS = 100
_has_passed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--record`."""
    parser.getgroup("nighthawk-async").addoption(
        "--record",
        choices=get_args(CassetteMode),
        default="none",
        help="What tests with a cassette record of their exchanges with models: none (the default; a request "
        "without a recording fails), once (everything, for tests without a file), new (what is missing), all "
        "(everything anew).",
    )
    parser.getgroup("nighthawk-async").addoption(
        "--natural-check",
        action="append",
        default=[],
        metavar="PATH",
        help="Check the natural functions of a file or folder without running them, as a test: what "
        "`nighthawk-async check` does.",
    )


class NaturalCheck(pytest.Item):
    """The check of a file or folder, as a test."""

    def runtest(self) -> None:
        """Check the path that is the name of the test."""
        try:
            findings = check_paths([self.config.invocation_params.dir / self.name])
        except OSError as error:
            pytest.fail(str(error), pytrace=False)
        mistakes = [str(each) for each in findings if each.severity != "note"]
        if mistakes:
            pytest.fail("\n".join(mistakes), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the title of the test."""
        return self.path, None, f"natural functions of {self.name}"


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each path to check."""
    paths = cast("list[str]", config.getoption("--natural-check"))
    items += [cast("Any", NaturalCheck).from_parent(session, name=path) for path in paths]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    description = f"the file of the fixture model_cassette, in the folder {_FOLDER} beside the test."
    config.addinivalue_line("markers", f"{_MARKER}(file): {description}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record whether the test itself passed."""
    report = yield
    if report.when == "call":
        item.stash[_has_passed] = report.passed
    return report


@pytest.fixture
def cassette_redactions() -> Iterable[Redaction]:
    """Return further redactions of the cassettes; override it in a `conftest.py` or a test module."""
    return ()


@pytest.fixture
def model_cassette(
    request: pytest.FixtureRequest, cassette_redactions: Iterable[Redaction]
) -> Generator[Cassette, None, None]:
    """Return a cassette for the test, active for the whole program until the test has ended.

    Its file is `cassettes/MODULE/TEST.yaml` beside the test's module. The option `--record` is its mode; a
    test that fails writes nothing.
    """
    tape = Cassette(
        _file_of(request.node),
        mode=cast("CassetteMode", request.config.getoption("--record")),
        redactions=tuple(cassette_redactions),
        activate=using_source_everywhere,
    )
    with tape:
        yield tape
        if not request.node.stash.get(_has_passed, False):
            tape.discard()


def _file_of(item: pytest.Item) -> Path:
    folder = item.path.parent / _FOLDER
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        names = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
        return folder / item.path.stem / f"{_file_name('.'.join([*names, item.name]))}.yaml"
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or marker.kwargs:
        raise pytest.UsageError(f"{item.nodeid}: the marker {_MARKER} takes one argument, the file.")
    return folder / marker.args[0]


def _file_name(test_name: str) -> str:
    """Return a file name for a test, valid on every system; with a digest if it would be ambiguous."""
    safe = re.sub(r"[^A-Za-z0-9_.=+\[\]-]", "-", test_name)[:_MAX_NAME_CHARACTERS]
    _, _, parameters = safe.partition("[")
    if safe == test_name and parameters == parameters.lower():
        return safe
    return f"{safe}-{hashlib.sha256(test_name.encode(errors='surrogatepass')).hexdigest()[:6]}"
