"""Reports as files of other tools: logs of Inspect (`inspect_ai`), and evaluations of promptfoo.

A log in Inspect's JSON format, version 2: https://inspect.aisi.org.uk/eval-logs.html

| report | log |
|---|---|
| subject, model | `eval.task`, `eval.model` |
| case, number of the trial | `id` and `epoch` of a sample |
| inputs, expectation, output | `input`, `target` and `output` of a sample, as texts |
| passed or failed | the score `passed`: `C` or `I` |
| scores of scorers | scores of the same names, with the reason as `explanation` |
| usage, seconds | `model_usage`, `total_time` |
| error, transport, unscored | `error` of a sample |
| not run | left out |

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
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...types.usage import Usage
from ..report import Report
from ..report_file import write_whole
from ..results import CaseResult, TrialResult

_NO_MODEL = "none/none"


def export_inspect_ai(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as a log of Inspect: `inspect view` and `inspect_ai.log.read_eval_log` read it.

    Args:
        report: The report.
        path: The path of the file, which ends with `.json`. A file that is there is replaced.

    Raises:
        OSError: The file cannot be written.
    """
    run = _trials_that_ran(report)
    created = _created(report)
    model = report.model or _NO_MODEL
    log: dict[str, Any] = {
        "version": 2,
        "status": "success" if len(run) == len(report.trials) else "cancelled",
        "eval": {
            "run_id": f"nighthawk-{report.subject_digest or report.seed}",
            "created": created,
            "task": report.subject,
            "task_id": report.subject,
            "task_version": 0,
            "dataset": {
                "name": report.subject,
                "samples": len(report.cases),
                "sample_ids": [case.name for case in report.cases],
                "shuffled": False,
            },
            "model": model,
            "config": {"epochs": report.trials_per_case},
            "metadata": {
                "seed": report.seed,
                "pass_mark": report.pass_mark,
                "exported_by": "nighthawk-async",
            },
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(report.trials),
            "completed_samples": report.decided,
            "scores": [_summary("passed", report), *(_summary(name, report) for name in report.scorers)],
        },
        "stats": {
            "started_at": created,
            "completed_at": created,
            "model_usage": {model: _usage(report.usage)},
        },
        "samples": [_sample(case, trial, model) for case, trial in run],
    }
    _write(path, log)


def _sample(case: CaseResult, trial: TrialResult, model: str) -> Mapping[str, Any]:
    sample: dict[str, Any] = {
        "id": case.name,
        "epoch": trial.number,
        "input": case.inputs,
        "target": case.expected,
        "messages": [],
        "output": {
            "model": model,
            "choices": [{"message": {"role": "assistant", "content": trial.output}, "stop_reason": "stop"}],
        },
        "scores": {
            name: {"value": score.value, "answer": trial.output, "explanation": score.reason or None}
            for name, score in trial.scores.items()
        },
        "metadata": {"status": trial.status, "seed": trial.seed, "tags": list(case.tags)},
        "store": {},
        "events": [],
        "attachments": {},
        "model_usage": {model: _usage(trial.usage + trial.scoring_usage)},
        "total_time": trial.seconds,
    }
    if trial.is_decided:
        sample["scores"]["passed"] = {"value": "C" if trial.has_passed else "I", "answer": trial.output}
    if trial.status in ("error", "transport", "unscored"):
        sample["error"] = {"message": trial.error, "traceback": "", "traceback_ansi": ""}
    return sample


def _summary(scorer: str, report: Report) -> Mapping[str, Any]:
    values = list(_values(scorer, report))
    value = report.pass_rate if scorer == "passed" and values else report.mean_score(scorer) if values else 0
    name = "accuracy" if scorer == "passed" else "mean"
    return {
        "name": scorer,
        "scorer": scorer,
        "scored_samples": len(values),
        "unscored_samples": len(report.trials) - len(values),
        "params": {},
        "metrics": {name: {"name": name, "value": value, "params": {}}},
    }


def _values(scorer: str, report: Report) -> Iterable[float]:
    if scorer == "passed":
        return (float(trial.has_passed) for trial in report.trials if trial.is_decided)
    return (trial.scores[scorer].value for trial in report.trials if scorer in trial.scores)


def _usage(usage: Usage) -> Mapping[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens,
        "input_tokens_cache_read": usage.cache_read_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_cost": None if usage.unpriced_requests else float(usage.cost),
    }


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
    run = _trials_that_ran(report)
    created = _created(report).replace("+00:00", "Z")
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
    _write(path, evaluation)


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


def _trials_that_ran(report: Report) -> list[tuple[CaseResult, TrialResult]]:
    return [(case, trial) for case in report.cases for trial in case.trials if trial.status != "not_run"]


def _created(report: Report) -> str:
    return datetime.fromtimestamp(report.created_at, UTC).isoformat()


def _write(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    write_whole(path, [msgspec.json.format(msgspec.json.encode(document), indent=1)])
