"""A pytest plugin: a cassette for each test, and evaluations as tests. Imported only by pytest.

pytest loads it by itself, in every project whose environment has this library. So it imports nothing before
a test uses it, and leaves an option to the project that has one of the same name.

PYTEST_DONT_REWRITE: it has no assertions, and may be imported before pytest registers it.
"""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ..lazy_exports import LazyModule
from .pytest_entry_point import free_names

if TYPE_CHECKING:
    from ..natural import checking
    from ..recording.redaction import Redaction
    from . import cassette_tests
    from .cassettes import Cassette, CassetteMode
else:
    Cassette = Redaction = object
    checking = LazyModule("nighthawk_async.natural.checking")
    cassette_tests = LazyModule(f"{__package__}.cassette_tests")

pytest_plugins = ["nighthawk_async.testing.pytest_evaluations"]

_MODES = ("none", "once", "new", "all")
_has_passed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the option `--record`."""
    group = parser.getgroup("nighthawk-async")
    group.addoption(
        *free_names(pluginmanager, "--record", "--nighthawk-record"),
        dest="nighthawk_record",
        choices=_MODES,
        default="none",
        help="What tests with a cassette record of their exchanges with models: none (the default; a request "
        "without a recording fails), once (everything, for tests without a file), new (what is missing), all "
        "(everything anew).",
    )
    group.addoption(
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
            findings = checking.check_paths([self.config.invocation_params.dir / self.name])
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
    description = "the file of the fixture model_cassette, in the folder cassettes beside the test."
    config.addinivalue_line("markers", f"cassette(file): {description}")


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

    Its file is `cassettes/MODULE/TEST.yaml` beside the test's module, for all event loops of the test. The
    option `--record` is its mode; a test that fails writes nothing.
    """
    mode = cast("CassetteMode", request.config.getoption("nighthawk_record"))
    with cassette_tests.open_cassette(request.node, mode=mode, redactions=cassette_redactions) as tape:
        yield tape
        if not request.node.stash.get(_has_passed, False):
            tape.discard()
