"""The test of one case of an evaluation. Imported only by pytest, for the first of them.

The first test of an evaluation runs all of its selected cases together, so that trials are in flight at once
and one budget holds; the others report their case. In processes of pytest-xdist, one process runs it, and the
others wait for its report in the session's temporary folder.

PYTEST_DONT_REWRITE: it has no assertions.
"""

import hashlib
import os
import re
import sqlite3
import traceback
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import anyio
import pytest

from ..causes import leaves_of
from ..errors import MissingCredentialError, NighthawkError
from ..evals.declarations import Evaluation, declared_evaluation
from ..evals.errors import NoExecutorError, ReportError
from ..evals.exports.junit import failures_text, passed_text
from ..evals.gates import GateResult, check_gate
from ..evals.marks import CASE_FIXTURE, EXECUTOR_FIXTURE
from ..evals.report import Report, load_report
from ..evals.results import CaseResult

_NAME_CHARACTERS = 60
_LONGEST_WAIT_SECONDS = 24 * 3600.0
_SKIPPING: Mapping[str, type[NighthawkError]] = {
    each.__name__: each for each in (MissingCredentialError, NoExecutorError)
}
"""The errors because of which evaluations are skipped, by name."""

_judged = pytest.StashKey[dict[str, "GateResult | _Stopped"]]()


@dataclass(frozen=True, slots=True)
class _Stopped:
    """The reason why an evaluation has no report."""

    reason: str
    is_skip: bool = False


def run_evaluation_test(item: pytest.Function, row: dict[str, str]) -> None:
    """Run the evaluation of a test unless it has run, and pass, fail or skip by the case of the test.

    Args:
        item: The test.
        row: The facts for the summary, which it fills: `evaluation`, `line` and `passed`.
    """
    name = _name_of(item)
    judged = item.session.stash.setdefault(_judged, {})
    if name not in judged:
        judged[name] = _judge(item, name)
    result = judged[name]
    row.update(evaluation=name, line=_line(item.config, name, result), passed="")
    if isinstance(result, _Stopped):
        (pytest.skip if result.is_skip else _fail)(result.reason)
    _report_case(item, cast("GateResult", result), row)


def _report_case(item: pytest.Function, result: GateResult, row: dict[str, str]) -> None:
    case = result.report.case(_case_of(item))
    row["passed"] = f"{case.passed}/{case.decided}"
    item.user_properties.append(("passed", case.passed))
    item.user_properties.append(("decided", case.decided))
    cost = sum(trial.usage.cost + trial.scoring_usage.cost for trial in case.trials)
    item.user_properties.append(("cost", str(cost)))
    verdict = result.case_verdict(case)
    if verdict == "undecided":
        reason = next((trial.error for trial in case.trials if trial.error), "")
        (pytest.skip if result.report.decided else _fail)(f"not decided: {reason}")
    elif verdict == "tolerated":
        pytest.xfail(f"{passed_text(case)}; the pass rate of all cases is {result.judged.pass_rate:.3f}")
    elif verdict in ("warned", "noted"):
        pytest.xfail(f"{passed_text(case)}; its severity is {case.severity}")
    elif verdict == "failed":
        _fail(_failure(case, result))
    elif result.verdict == "inconclusive":
        _fail("; ".join(result.reasons))


def _failure(case: CaseResult, result: GateResult) -> str:
    return "\n".join([passed_text(case), failures_text(case), *result.reasons])


def _fail(reason: str) -> None:
    pytest.fail(reason, pytrace=False)


def _judge(item: pytest.Function, name: str) -> "GateResult | _Stopped":
    options = item.config.option
    try:
        made = _evaluation(item)
        file = None
        if options.evaluation_reports:
            file = Path(item.config.invocation_params.dir, options.evaluation_reports, f"{name}.jsonl")
            file.parent.mkdir(parents=True, exist_ok=True)  # before anything is spent
        report = _shared_report(item, name, made)
        if file is not None:
            report.save(file)
        return check_gate(report, at_least=made.at_least, baseline=_baseline(item.config, name))
    except tuple(_SKIPPING.values()) as error:
        if options.evaluation_model is not None:
            return _Stopped(str(error))
        return _Stopped(_skip_reason(error), is_skip=True)
    except ReportError as error:
        return _Stopped(f"{error} With several evaluations, --baseline takes a folder.")
    except (NighthawkError, OSError) as error:
        return _Stopped(str(error))
    except Exception as error:  # of code of the test; kept, so that no other case runs it again
        return _Stopped("".join(traceback.format_exception(error)))


def _skip_reason(error: NighthawkError) -> str:
    if isinstance(error, NoExecutorError):
        return "no model: give --evaluation-model provider:name, or override the fixture evaluation_executor"
    return str(error)


def _evaluation(item: pytest.Function) -> Evaluation:
    """Return the evaluation of a test, with the cases that are selected."""
    made = declared_evaluation(item.obj)
    selected = {
        _case_of(each)
        for each in item.session.items
        if isinstance(each, pytest.Function) and _is_same(each, item)
    }
    named = item.config.option.evaluation_model
    model = made.model or item.funcargs[EXECUTOR_FIXTURE] if named is None else named
    return replace(
        made,
        cases=[case for case in made.cases if case.name in selected],
        at_least=1.0 if made.at_least is None else made.at_least,
        model=model,
    )


def _case_of(item: pytest.Function) -> str:
    return str(item.callspec.params[CASE_FIXTURE])


def _is_same(one: pytest.Function, other: pytest.Function) -> bool:
    if not _is_variant(one, other):
        return False
    ours, theirs = _parameters_of(one), _parameters_of(other)
    return all(theirs.get(name) is value for name, value in ours.items())


def _is_variant(one: pytest.Function, other: pytest.Function) -> bool:
    """Whether two tests are of one function, with any parameters."""
    return one.originalname == other.originalname and one.parent is other.parent


def _parameters_of(item: pytest.Function) -> dict[str, object]:
    """Return all parameters but the case, such as a parametrized executor."""
    return {name: value for name, value in item.callspec.params.items() if name != CASE_FIXTURE}


def _shared_report(item: pytest.Function, name: str, made: Evaluation) -> Report:
    """Return the report; with pytest-xdist, that of the process that runs it."""
    if not hasattr(item.config, "workerinput"):
        return _run(made)
    request = cast("pytest.FixtureRequest", item.funcargs["request"])
    temporary: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    digest = _digest(name)
    folder = temporary.getbasetemp().parent
    path, stopped = folder / f"evaluation-{digest}.jsonl", folder / f"evaluation-{digest}.txt"
    with _locked(folder / f"evaluation-{digest}.lock"):
        if stopped.exists():
            kind, _, reason = stopped.read_text(encoding="utf-8").partition("\n")
            raise _SKIPPING.get(kind, NighthawkError)(reason)
        if not path.exists():
            try:
                report = _run(made)
            except Exception as error:
                stopped.write_text(f"{type(error).__name__}\n{error}", encoding="utf-8")
                raise
            report.save(path)
            return report
    return load_report(path)


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """Hold a lock between processes, which ends with the process in any way."""
    with closing(sqlite3.connect(path, timeout=_LONGEST_WAIT_SECONDS, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _run(made: Evaluation) -> Report:
    """Run an evaluation in an event loop of its own."""
    options = {"restrict_keyboard_interrupt_to_checkpoints": True}
    try:
        return anyio.run(made.run, backend="trio", backend_options=options)
    except BaseExceptionGroup as group:
        leaves = list(leaves_of(group))
        known = [each for each in leaves if isinstance(each, NighthawkError | KeyboardInterrupt)]
        if len(known) < len(leaves):
            raise
        raise known[0] from None


def _baseline(config: pytest.Config, name: str) -> Path | None:
    if not config.option.evaluation_baseline:
        return None
    path = Path(config.invocation_params.dir, config.option.evaluation_baseline)
    if not path.is_dir():
        return path
    file = path / f"{name}.jsonl"
    return file if file.exists() else None


def _name_of(item: pytest.Function) -> str:
    """Return the name of an evaluation in reports and files: that of the test with its modules."""
    path = os.path.relpath(item.path, item.config.rootpath)
    parts = Path(path).with_suffix("").parts
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    parameters = [_parameter_text(item, name) for name in _parameters_of(item)]
    return ".".join([*(part for part in parts if part != ".."), *classes, item.originalname, *parameters])


def _parameter_text(item: pytest.Function, name: str) -> str:
    """Return a parameter as a part of a name: a text itself, another value by its number."""
    value = item.callspec.params[name]
    if isinstance(value, str):
        text = re.sub(r"[^\w=+-]+", ".", value)[:_NAME_CHARACTERS]
        return text if text == value else f"{text}-{_digest(value)[:6]}"
    variants = (
        each for each in item.session.items if isinstance(each, pytest.Function) and _is_variant(each, item)
    )
    numbers = list(dict.fromkeys(id(each.callspec.params[name]) for each in variants))
    return f"{name}{numbers.index(id(value))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _line(config: pytest.Config, name: str, result: "GateResult | _Stopped") -> str:
    if isinstance(result, _Stopped):
        return f"{name}: {'skipped' if result.is_skip else 'failed'}: {result.reason}"
    report = result.report
    counts = [f"{count} {status.replace('_', ' ')}" for status, count in report.counts.items() if count]
    rate = f"{report.pass_rate:.3f} ({report.interval})" if report.decided else "not decided"
    lines = [
        f"{name}: {result.verdict}, pass rate {rate}, at least {result.at_least:g} asked; "
        f"{', '.join(counts)}; {report.usage}"
    ]
    if result.comparison is not None:
        lines += [f"  {line}" for line in str(result.comparison).splitlines()]
    elif config.option.evaluation_baseline and result.verdict != "inconclusive":
        lines.append(f"  there is no baseline of it in {config.option.evaluation_baseline}")
    return "\n".join(lines)
