"""Exports of reports in the forms that Inspect and promptfoo document."""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter

from nighthawk_async.evals import (
    CaseResult,
    Report,
    Score,
    TrialResult,
    TrialStatus,
    export_inspect_ai,
    export_promptfoo,
)
from nighthawk_async.types.usage import Usage


def trial(number: int, status: TrialStatus, **fields: Any) -> TrialResult:
    return TrialResult(
        case="lamp",
        number=number,
        status=status,
        seed=7,
        seconds=0.25,
        usage=Usage(requests=1, input_tokens=10, output_tokens=2, cost=Decimal("0.01")),
        **fields,
    )


@pytest.fixture
def report() -> Report:
    """A report with a trial of every status."""
    good, bad = Score(1.0, passed=True), Score(0.25, passed=False, reason="'x' is not 'y'")
    trials = (
        trial(1, "passed", scores={"equals": good}, output="y"),
        trial(2, "failed", scores={"equals": bad}, output="x"),
        trial(3, "error", error="ValueError: ü"),
        trial(4, "transport", error="ModelConnectionError: broken"),
        trial(5, "unscored", error="scorer 'equals': RuntimeError: x", output="y"),
        TrialResult(case="lamp", number=6, status="not_run", error="the budget is spent"),
    )
    case = CaseResult(
        name="lamp", inputs="review='An elegant lamp.'", expected="y", tags=("home",), trials=trials
    )
    return Report(
        subject="reviews:classify",
        cases=(case,),
        scorers=("equals",),
        trials_per_case=6,
        seed=3,
        model="openai-chat:gpt-5.4-nano",
        created_at=1_800_000_000.5,
    )


# Inspect: the fields of its log format, version 2, that a log must or may have.


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InspectDataset(Strict):
    name: str
    samples: int
    sample_ids: list[str]
    shuffled: bool


class InspectSpec(Strict):
    run_id: str
    created: datetime
    task: str
    task_id: str
    task_version: int
    dataset: InspectDataset
    model: str
    config: dict[Literal["epochs"], int]
    metadata: dict[str, Any]


class InspectMetric(Strict):
    name: str
    value: float
    params: dict[str, Any]


class InspectSummary(Strict):
    name: str
    scorer: str
    scored_samples: int
    unscored_samples: int
    params: dict[str, Any]
    metrics: dict[str, InspectMetric]


class InspectResults(Strict):
    total_samples: int
    completed_samples: int
    scores: list[InspectSummary]


class InspectUsage(Strict):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_cache_write: int | None
    input_tokens_cache_read: int | None
    reasoning_tokens: int | None
    total_cost: float | None


class InspectStats(Strict):
    started_at: datetime
    completed_at: datetime
    model_usage: dict[str, InspectUsage]


class InspectScore(Strict):
    value: float | Literal["C", "I"]
    answer: str | None = None
    explanation: str | None = None


class InspectError(Strict):
    message: str
    traceback: str
    traceback_ansi: str


class InspectSample(Strict):
    id: str
    epoch: int
    input: str
    target: str
    messages: list[Any]
    output: dict[Literal["model", "choices"], Any]
    scores: dict[str, InspectScore]
    metadata: dict[str, Any]
    store: dict[str, Any]
    events: list[Any]
    attachments: dict[str, Any]
    model_usage: dict[str, InspectUsage]
    total_time: float
    error: InspectError | None = None


class InspectLog(Strict):
    version: Literal[2]
    status: Literal["started", "success", "cancelled", "error"]
    eval: InspectSpec
    plan: dict[str, Any]
    results: InspectResults
    stats: InspectStats
    samples: list[InspectSample]


def test_a_log_of_inspect_has_its_documented_form(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    export_inspect_ai(report, path)
    log = InspectLog.model_validate_json(path.read_bytes(), strict=False)
    assert (log.status, log.eval.task, log.eval.model) == ("cancelled", report.subject, report.model)
    assert log.eval.created.isoformat() == "2027-01-15T08:00:00.500000+00:00"
    assert [(sample.id, sample.epoch) for sample in log.samples] == [("lamp", n) for n in range(1, 6)]
    first, second, third, fourth, fifth = log.samples
    assert (first.input, first.target) == ("review='An elegant lamp.'", "y")
    assert first.output["choices"][0]["message"] == {"role": "assistant", "content": "y"}
    assert first.scores["passed"].value == "C"
    assert second.scores["passed"].value == third.scores["passed"].value == "I"
    assert second.scores["equals"] == InspectScore(value=0.25, answer="x", explanation="'x' is not 'y'")
    assert third.error is not None
    assert third.error.message == "ValueError: ü"
    assert fourth.error is not None
    assert "passed" not in fourth.scores | fifth.scores
    assert first.total_time == 0.25
    assert log.stats.model_usage["openai-chat:gpt-5.4-nano"].total_tokens == 60
    accuracy, equals = log.results.scores
    assert accuracy.metrics["accuracy"].value == pytest.approx(1 / 3)
    assert (accuracy.scored_samples, accuracy.unscored_samples) == (3, 3)
    assert equals.metrics["mean"].value == pytest.approx(0.625)


# promptfoo: what its schema of imported files, version 3, asks for.


class PromptfooPrompt(BaseModel):
    raw: str
    label: str


class PromptfooMetrics(BaseModel):
    score: float
    testPassCount: int  # noqa: N815
    testFailCount: int  # noqa: N815
    testErrorCount: int  # noqa: N815
    assertPassCount: int  # noqa: N815
    assertFailCount: int  # noqa: N815
    totalLatencyMs: float  # noqa: N815
    namedScores: dict[str, float]  # noqa: N815
    namedScoresCount: dict[str, float]  # noqa: N815
    tokenUsage: dict[Literal["prompt", "completion", "cached", "total", "numRequests"], int]  # noqa: N815
    cost: float


class PromptfooGrading(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    score: float
    reason: str
    namedScores: dict[str, float] = {}  # noqa: N815
    componentResults: "list[PromptfooGrading]" = []  # noqa: N815


class PromptfooResult(BaseModel):
    prompt: PromptfooPrompt
    vars: dict[str, str]
    response: dict[str, Any]
    error: str | None = None
    success: bool
    score: float
    latencyMs: float  # noqa: N815
    gradingResult: PromptfooGrading  # noqa: N815
    namedScores: dict[str, float]  # noqa: N815
    cost: float
    metadata: dict[str, Any]
    provider: dict[Literal["id", "label"], str]
    promptId: str  # noqa: N815
    promptIdx: int  # noqa: N815
    testIdx: int  # noqa: N815
    testCase: dict[str, Any]  # noqa: N815
    failureReason: Literal[0, 1, 2]  # noqa: N815


def test_an_evaluation_of_promptfoo_has_its_documented_form(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "promptfoo.json"
    export_promptfoo(report, path)
    evaluation = json.loads(path.read_text("utf-8"))
    assert isinstance(evaluation["config"], dict)
    summary = evaluation["results"]
    assert summary["version"] == 3
    assert datetime.fromisoformat(summary["timestamp"]).year == 2027
    assert (summary["stats"]["successes"], summary["stats"]["failures"], summary["stats"]["errors"]) == (
        1,
        1,
        3,
    )
    (prompt,) = summary["prompts"]
    metrics = PromptfooMetrics.model_validate(prompt["metrics"])
    assert (metrics.testPassCount, metrics.testFailCount, metrics.testErrorCount) == (1, 1, 3)
    assert (metrics.namedScores, metrics.namedScoresCount) == ({"equals": 1.25}, {"equals": 2})
    results = TypeAdapter(list[PromptfooResult]).validate_python(summary["results"])
    assert [(result.testIdx, result.success, result.failureReason) for result in results] == [
        (0, True, 0),
        (1, False, 1),
        (2, False, 2),
        (3, False, 2),
        (4, False, 2),
    ]
    assert results[1].gradingResult.reason == "'x' is not 'y'"
    assert results[1].gradingResult.componentResults[0].score == 0.25
    assert (results[1].error, results[2].error) == (None, "ValueError: ü")
    assert {result.promptId for result in results} == {prompt["id"]}
    assert results[0].provider["id"] == "openai-chat:gpt-5.4-nano"
    assert results[0].vars == {"inputs": "review='An elegant lamp.'", "expected": "y"}


def test_a_report_without_model_and_scores_is_exported_too(tmp_path: Path) -> None:
    lonely = TrialResult(case="a", number=1, status="not_run")
    report = Report(
        subject="m:f", cases=(CaseResult(name="a", trials=(lonely,)),), scorers=("equals",), trials_per_case=1
    )
    export_inspect_ai(report, tmp_path / "log.json")
    export_promptfoo(report, tmp_path / "promptfoo.json")
    log = InspectLog.model_validate_json((tmp_path / "log.json").read_bytes())
    assert (log.eval.model, log.samples, log.results.scores[0].metrics["accuracy"].value) == (
        "none/none",
        [],
        0,
    )
    assert json.loads((tmp_path / "promptfoo.json").read_bytes())["results"]["results"] == []
