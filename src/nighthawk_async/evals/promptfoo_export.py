"""Reports as evaluations of promptfoo: `promptfoo import FILE` adds them to those that it shows.

A file in the form that `promptfoo export` writes, version 3:
https://www.promptfoo.dev/docs/usage/command-line/#promptfoo-import-filepath

| report | file |
|---|---|
| subject | the only prompt |
| model | the provider |
| case | a test case with the variables `inputs` and `expected`, as texts |
| each trial | a result with a `testIdx` of its own, as with `--repeat` |
| passed | `success` and `gradingResult.pass` |
| scores of scorers | `namedScores` and `gradingResult.componentResults` |
| error, transport, unscored | `error`, with the `failureReason` 2 |
| not run | left out |
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..types.usage import Usage
from .report import Report
from .report_file import write_whole
from .results import CaseResult, TrialResult

_REASONS: Mapping[str, int] = {"passed": 0, "failed": 1}
_ERROR = 2


def export_promptfoo(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as an evaluation of promptfoo, for `promptfoo import`.

    Args:
        report: The report.
        path: The path of the file, which ends with `.json`. A file that is there is replaced.

    Raises:
        OSError: The file cannot be written.
    """
    run = [(case, trial) for case in report.cases for trial in case.trials if trial.status != "not_run"]
    created = datetime.fromtimestamp(report.created_at, UTC).isoformat().replace("+00:00", "Z")
    provider = {"id": report.model or "nighthawk-async", "label": report.model or "nighthawk-async"}
    prompt = {"raw": report.subject, "label": report.subject}
    prompt_id = hashlib.sha256(report.subject.encode()).hexdigest()
    results = [
        {
            **_result(case, trial),
            "prompt": prompt,
            "promptId": prompt_id,
            "promptIdx": 0,
            "testIdx": index,
            "provider": provider,
        }
        for index, (case, trial) in enumerate(run)
    ]
    trials = [trial for _, trial in run]
    errors = sum(trial.status not in _REASONS for trial in trials)
    passed = report.counts["passed"]
    evaluation = {
        "evalId": f"eval-{prompt_id[:3]}-{created}",
        "results": {
            "version": 3,
            "timestamp": created,
            "prompts": [
                {
                    **prompt,
                    "id": prompt_id,
                    "provider": provider["id"],
                    "metrics": _metrics(report, trials, errors=errors),
                }
            ],
            "results": results,
            "stats": {
                "successes": passed,
                "failures": report.counts["failed"],
                "errors": errors,
                "tokenUsage": _tokens(report.usage),
            },
        },
        "config": {"description": report.subject},
        "shareableUrl": None,
        "metadata": {"exportedAt": created, "evaluationCreatedAt": created},
    }
    write_whole(path, [msgspec.json.format(msgspec.json.encode(evaluation), indent=1)])


def _result(case: CaseResult, trial: TrialResult) -> Mapping[str, Any]:
    variables = {"inputs": case.inputs, "expected": case.expected}
    scores = {name: score.value for name, score in trial.scores.items()}
    reason = trial.error or "; ".join(score.reason for score in trial.scores.values() if score.reason)
    result: dict[str, Any] = {
        "id": f"{case.name} {trial.number}",
        "vars": variables,
        "response": {"output": trial.output, "tokenUsage": _tokens(trial.usage)},
        "success": trial.has_passed,
        "score": float(trial.has_passed),
        "latencyMs": round(trial.seconds * 1000),
        "namedScores": scores,
        "cost": float(trial.usage.cost),
        "failureReason": _REASONS.get(trial.status, _ERROR),
        "metadata": {"trial": trial.number, "status": trial.status, "seed": trial.seed},
        "gradingResult": {
            "pass": trial.has_passed,
            "score": float(trial.has_passed),
            "reason": reason,
            "namedScores": scores,
            "componentResults": [
                {
                    "pass": bool(score.passed),
                    "score": score.value,
                    "reason": score.reason,
                    "assertion": {"type": "python", "metric": name, "value": name},
                }
                for name, score in trial.scores.items()
            ],
        },
        "testCase": {
            "description": case.name,
            "vars": variables,
            "assert": [],
            "metadata": {"tags": list(case.tags)},
        },
    }
    if trial.status not in _REASONS:
        result["error"] = trial.error
    return result


def _metrics(report: Report, trials: Sequence[TrialResult], *, errors: int) -> Mapping[str, Any]:
    scores = [score for trial in trials for score in trial.scores.values()]
    named = {
        name: values
        for name in report.scorers
        if (values := [trial.scores[name].value for trial in trials if name in trial.scores])
    }
    return {
        "score": float(report.counts["passed"]),
        "testPassCount": report.counts["passed"],
        "testFailCount": report.counts["failed"],
        "testErrorCount": errors,
        "assertPassCount": sum(bool(score.passed) for score in scores),
        "assertFailCount": sum(not score.passed for score in scores),
        "totalLatencyMs": round(sum(trial.seconds for trial in trials) * 1000),
        "tokenUsage": _tokens(report.usage),
        "namedScores": {name: sum(values) for name, values in named.items()},
        "namedScoresCount": {name: len(values) for name, values in named.items()},
        "cost": float(report.usage.cost),
    }


def _tokens(usage: Usage) -> Mapping[str, int]:
    return {
        "prompt": usage.input_tokens,
        "completion": usage.output_tokens,
        "cached": usage.cache_read_tokens,
        "total": usage.input_tokens + usage.output_tokens,
        "numRequests": usage.requests,
    }
