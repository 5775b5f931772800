"""What a tool call gave, as the model sees it."""

import json

import pytest

from nighthawk_async.errors import StepAbortedError, StepRejectedError, ToolEvaluationError
from nighthawk_async.kernel.tool_calls import (
    ToolError,
    ToolOutcome,
    ToolResultRenderingPolicy,
    outcome_of_failure,
    project_outcome,
    render_outcome,
)
from nighthawk_async.prompt.tokens import TokenCounter


def make_policy(max_tokens: int = 100) -> ToolResultRenderingPolicy:
    counter = TokenCounter.resolve(encoding_name=None, model_name="gpt-5.4-nano")
    return ToolResultRenderingPolicy(counter=counter, tool_result_max_tokens=max_tokens)


def test_a_policy_names_its_tokenizer_encoding() -> None:
    assert make_policy().tokenizer_encoding_name == "o200k_base"


def test_a_failure_is_an_envelope_without_a_value() -> None:
    outcome = ToolOutcome(error=ToolError(kind="internal", message="é", guidance=None))
    (text,) = render_outcome(outcome, make_policy())
    assert text == project_outcome(outcome, make_policy())
    assert json.loads(str(text)) == {
        "value": None,
        "error": {"kind": "internal", "message": "é", "guidance": None},
    }


@pytest.mark.parametrize("decided", [StepAbortedError("enough"), StepRejectedError("too dear")])
def test_what_somebody_decided_inside_a_call_is_no_reason_to_try_again(decided: Exception) -> None:
    error = ToolEvaluationError(f"order(): {decided}")
    error.__cause__ = decided
    failure = outcome_of_failure(error).error
    assert failure is not None
    assert failure.kind == "oversight"
    assert str(decided) in failure.message
    assert "Do not try it again" in (failure.guidance or "")
