"""Reports as logs of Inspect (`inspect_ai`), which its viewer and its data frames read.

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
"""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..types.usage import Usage
from .report import Report
from .report_file import write_whole
from .results import CaseResult, TrialResult

_NO_MODEL = "none/none"


def export_inspect_ai(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as a log of Inspect: `inspect view` and `inspect_ai.log.read_eval_log` read it.

    Args:
        report: The report.
        path: The path of the file, which ends with `.json`. A file that is there is replaced.

    Raises:
        OSError: The file cannot be written.
    """
    run = [(case, trial) for case in report.cases for trial in case.trials if trial.status != "not_run"]
    created = datetime.fromtimestamp(report.created_at, UTC).isoformat()
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
    write_whole(path, [msgspec.json.format(msgspec.json.encode(log), indent=1)])


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
