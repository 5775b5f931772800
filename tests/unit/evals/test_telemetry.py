"""The events of scores that OpenTelemetry's log records carry."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor, ReadWriteLogRecord

from nighthawk_async.evals import Case, Score, Trial, equals, evaluate
from tests.unit.evals.evals_support import cases, executor, stars
from tests.unit.telemetry.traces import Traces, telemetry, traced

pytestmark = pytest.mark.anyio


class Records(LogRecordProcessor):
    """Keeps the evaluation events of a test."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        if log_record.log_record.event_name == "gen_ai.evaluation.result":
            self.kept.append(log_record.log_record)

    def shutdown(self) -> None: ...

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    """The evaluation events of the test."""
    records, provider = Records(), LoggerProvider()
    provider.add_log_record_processor(records)
    monkeypatch.setattr(_logs, "get_logger_provider", lambda: provider)
    with telemetry():
        yield records
    provider.shutdown()


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """The spans of the test, when they have ended."""
    with traced(monkeypatch) as traces:
        yield traces


async def test_each_score_is_an_event(records: Records) -> None:
    await evaluate(stars, cases("Four", "One"), scorers=[equals()], model=executor({"One": 2}))
    found = {
        record.attributes["nighthawk.evaluation.case"]: dict(record.attributes) for record in records.kept
    }
    assert found == {
        "Four": {
            "gen_ai.evaluation.name": "equals",
            "gen_ai.evaluation.score.value": 1.0,
            "gen_ai.evaluation.score.label": "pass",
            "nighthawk.evaluation.case": "Four",
            "nighthawk.evaluation.trial": 1,
        },
        "One": {
            "gen_ai.evaluation.name": "equals",
            "gen_ai.evaluation.score.value": 0.0,
            "gen_ai.evaluation.score.label": "fail",
            "nighthawk.evaluation.case": "One",
            "nighthawk.evaluation.trial": 1,
        },
    }


async def test_the_explanation_is_content(records: Records) -> None:
    with telemetry(capture_content=True):
        await evaluate(stars, cases("One"), scorers=[equals()], model=executor({"One": 2}))
    (record,) = records.kept
    assert record.attributes["gen_ai.evaluation.explanation"] == "2 is not 1"


async def test_a_scorer_that_raises_is_an_event_with_the_class_of_the_error(records: Records) -> None:
    def broken(trial: Trial) -> Score:
        raise ValueError("secret")

    async def double(number: int) -> int:
        return 2 * number

    await evaluate(double, [Case("a", inputs={"number": 1})], scorers=[broken])
    (record,) = records.kept
    assert dict(record.attributes) == {
        "gen_ai.evaluation.name": "broken",
        "error.type": "builtins.ValueError",
        "nighthawk.evaluation.case": "a",
        "nighthawk.evaluation.trial": 1,
    }


async def test_events_belong_to_the_span_of_their_trial_as_its_steps_do(
    records: Records, traces: Traces
) -> None:
    await evaluate(stars, cases("Four", "One"), scorers=[equals()], trials=2, model=executor())
    steps = [span for span in traces.named("nighthawk.step") if span.name == "nighthawk.step"]
    assert len(steps) == 4
    parents = {step.parent.span_id for step in steps if step.parent is not None}
    assert {record.span_id for record in records.kept} == parents
    assert len(parents) == 4
