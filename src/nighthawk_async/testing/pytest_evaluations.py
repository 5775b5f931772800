"""The part of the pytest plugin that makes tests of evaluations. Imported only by pytest.

PYTEST_DONT_REWRITE: it has no assertions, and may be imported before pytest registers it.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

import pytest

from ..evals.marks import CASE_FIXTURE, is_evaluation
from ..lazy_exports import LazyModule
from .pytest_entry_point import free_names

if TYPE_CHECKING:
    from .. import errors
    from ..evals import declarations
    from . import evaluation_tests
else:  # so that other tests do not load them
    errors = LazyModule("nighthawk_async.errors")
    declarations = LazyModule("nighthawk_async.evals.declarations")
    evaluation_tests = LazyModule(f"{__package__}.evaluation_tests")

_ROW = "nighthawk_evaluation"
_row = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of evaluations."""
    group = parser.getgroup("nighthawk-async")
    group.addoption(
        *free_names(pluginmanager, "--baseline", "--evaluation-baseline"),
        dest="evaluation_baseline",
        metavar="PATH",
        help="Compare each evaluation with an earlier report: in the folder of --evaluation-reports, or the "
        "file of one evaluation. Cases that became worse fail when the report regressed.",
    )
    group.addoption(
        "--evaluation-reports",
        metavar="FOLDER",
        help="Write the report of each evaluation there, MODULE.TEST.jsonl.",
    )
    group.addoption(
        "--evaluation-model",
        metavar="PROVIDER:NAME",
        help="The model of all evaluations, in place of those of the code and of evaluation_executor.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Show evaluations at the end."""
    config.pluginmanager.register(EvaluationSummary(), "nighthawk-async evaluations")


@pytest.fixture(scope="session")
def evaluation_executor() -> Any:
    """Return the executor of evaluations that name none; override it in a `conftest.py` or a test module.

    The result is what `nighthawk_async.run` takes: an executor, a configuration, a model or its id. None for
    no model: an evaluation that needs one is skipped.
    """
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each case of an evaluation."""
    if not is_evaluation(metafunc.function):
        return
    function: Callable[..., Any] = metafunc.function
    owner = cast("type[Any] | None", cast("Any", metafunc).cls)
    if owner is not None:
        function = getattr(owner(), metafunc.definition.originalname)
    try:
        made = declarations.declared_evaluation(function)
    except errors.NighthawkError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    names = [case.name for case in made.cases]
    metafunc.parametrize(CASE_FIXTURE, names, ids=names)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the evaluation unless it has run, and report the case of this test."""
    if not is_evaluation(pyfuncitem.obj):
        return None
    evaluation_tests.run_evaluation_test(pyfuncitem, pyfuncitem.stash.setdefault(_row, {}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the report of a test what the summary needs, also from another process."""
    report = yield
    row = item.stash.get(_row, None)
    if report.when == "call" and row:  # empty if the evaluation ended before there was anything to show
        vars(report)[_ROW] = row
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: object) -> tuple[str, str, str] | None:
    """Show the number of trials that passed beside a test that did."""
    row = getattr(report, _ROW, None)
    if row is None or not row["passed"] or getattr(report, "outcome", "") != "passed":
        return None
    if hasattr(report, "wasxfail"):
        return None
    return "passed", ".", f"PASSED {row['passed']}"


class EvaluationSummary:
    """The summary of the evaluations of a session, at its end."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the line of an evaluation."""
        row = getattr(report, _ROW, None)
        if row is not None:
            self._lines[row["evaluation"]] = row["line"]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the lines."""
        if self._lines:
            terminalreporter.write_sep("=", "evaluations")
            for line in self._lines.values():
                terminalreporter.write_line(line)
