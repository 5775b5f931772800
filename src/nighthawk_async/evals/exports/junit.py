"""JUnit XML of evaluations, as servers of continuous integration read it."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from xml.etree import ElementTree

from ..gates import CaseVerdict, GateResult
from ..results import CaseResult, TrialResult

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Iterable[GateResult]) -> str:
    """Return a JUnit XML document: a suite for each report, a test case for each case.

    A case is a failure if `GateResult.case_verdict` says so, or skipped if no trial of it was decided. A
    report whose verdict no case explains has a further test case, `gate`.

    Args:
        results: The reports, judged.
    """
    root = ElementTree.Element("testsuites")
    for number, result in enumerate(results):
        root.append(_suite(number, result))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(number: int, result: GateResult) -> ElementTree.Element:
    report = result.report
    package, _, _ = report.subject.rpartition(":")
    classname = report.subject.replace(":", ".")
    verdicts: list[CaseVerdict] = [result.case_verdict(case) for case in report.cases]
    has_gate_case = not result.has_passed and "failed" not in verdicts
    suite = _element(
        "testsuite",
        name=report.subject,
        package=package,
        id=str(number),
        hostname="localhost",
        timestamp=datetime.fromtimestamp(report.created_at, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        tests=str(len(report.cases) + has_gate_case),
        failures=str(verdicts.count("failed") + has_gate_case),
        errors="0",
        skipped=str(verdicts.count("undecided")),
        time=_seconds(trial.seconds for trial in report.trials),
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(result).items():
        properties.append(_element("property", name=name, value=value))
    for case, verdict in zip(report.cases, verdicts, strict=True):
        suite.append(_case(case, classname, verdict))
    if has_gate_case:
        gate = _element("testcase", name="gate", classname=classname, time="0.000")
        gate.append(_element("failure", type=result.verdict, message="; ".join(result.reasons)))
        suite.append(gate)
    ElementTree.SubElement(suite, "system-out").text = _clean(str(report))
    ElementTree.SubElement(suite, "system-err").text = _clean("\n".join(result.reasons))
    return suite


def _properties(result: GateResult) -> dict[str, str]:
    report = result.report
    found = {
        "verdict": result.verdict,
        "pass_rate": f"{report.pass_rate:.6g}" if report.decided else "",
        "at_least": "" if result.at_least is None else f"{result.at_least:g}",
        "model": report.model or "",
        "trials_per_case": str(report.trials_per_case),
        "seed": str(report.seed),
        "cost": str(report.usage.cost),
        "tokens": str(report.usage.input_tokens + report.usage.output_tokens),
    }
    if result.comparison is not None:
        found["comparison"] = result.comparison.verdict
    return {name: value for name, value in found.items() if value}


def _case(case: CaseResult, classname: str, verdict: CaseVerdict) -> ElementTree.Element:
    element = _element(
        "testcase",
        name=case.name,
        classname=classname,
        time=_seconds(trial.seconds for trial in case.trials),
    )
    if verdict == "failed":
        failure = _element("failure", type="failed", message=passed_text(case))
        failure.text = _clean(failures_text(case))
        element.append(failure)
    elif verdict == "undecided":
        reason = next((trial.error for trial in case.trials if trial.error), "")
        element.append(_element("skipped", message=f"not decided: {reason}"))
    return element


def passed_text(case: CaseResult) -> str:
    """Return the number of trials of a case that passed, in words.

    Args:
        case: The case.
    """
    return f"{case.passed} of {case.decided} trials passed"


def failures_text(case: CaseResult) -> str:
    """Return the trials of a case that did not pass, with the reasons, a few lines for each.

    Args:
        case: The case.
    """
    lines = [f"inputs: {case.inputs}"]
    if case.expected:
        lines.append(f"expected: {case.expected}")
    numbers: dict[str, list[str]] = {}
    for trial in case.trials:
        if not trial.has_passed:
            numbers.setdefault(_failure_text(trial), []).append(str(trial.number))
    lines += [f"trial {', '.join(those)}: {text}" for text, those in numbers.items()]
    return "\n".join(lines)


def _failure_text(trial: TrialResult) -> str:
    lines = [trial.status.replace("_", " ") + (f": {trial.error}" if trial.error else "")]
    if trial.output:
        lines.append(f"  returned: {trial.output}")
    lines += [
        f"  {name}: {score.value:g}" + (f", {score.reason}" if score.reason else "")
        for name, score in trial.scores.items()
        if not score.passed
    ]
    return "\n".join(lines)


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    """Replace the characters that XML cannot hold."""
    return _NOT_IN_XML.sub("�", text)


def _seconds(seconds: Iterable[float]) -> str:
    return f"{sum(seconds):.3f}"
