"""One event of every kind, and a run to emit them in."""

from typing import Any

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.testing import ScriptedExecutor, pass_response

REF = nh.ExecutionRef(run_id="run", scope_id="scope", step_id="module:7")
REQUEST = nh.models.ModelRequest(messages=())

EVENTS: tuple[Any, ...] = (
    nhh.RunStarted(execution_ref=REF),
    nhh.RunFinished(execution_ref=REF, usage=nh.Usage()),
    nhh.ScopeStarted(execution_ref=REF),
    nhh.ScopeFinished(execution_ref=REF, usage=nh.Usage()),
    nhh.StepStarted(execution_ref=REF, program="Do it."),
    nhh.StepFinished(execution_ref=REF, usage=nh.Usage(), outcome=nh.executors.PassStepOutcome()),
    nhh.BeforeModelRequest(execution_ref=REF, model_name="provider:name", request=REQUEST),
    nhh.BeforeCompaction(
        execution_ref=REF,
        plan=nh.executors.CompactionPlan(
            model_name="provider:name", context_window=100, tokens=80, tokens_after=40
        ),
    ),
    nhh.AfterModelRequest(execution_ref=REF, model_name="provider:name", usage=None),
    nhh.BeforeToolCall(execution_ref=REF, tool_name="send", call_id="1", arguments={"to": "a"}),
    nhh.AfterToolCall(execution_ref=REF, tool_name="send", call_id="1", content=("sent",), is_error=False),
    nhh.PartialValues(execution_ref=REF, values={"x": 1}),
    nhh.BeforeCommit(execution_ref=REF, outcome=nh.executors.PassStepOutcome(), bindings={"x": 1}),
    nhh.BudgetThreshold(execution_ref=REF, budget="b", resource="tokens", fraction=0.8, spent=80, limit=100),
    nhh.Retry(execution_ref=REF, name="f", attempt=1, error=ValueError("no"), wait_seconds=1.0),
    nhh.StepSuspended(execution_ref=REF),
    nhh.StepResumed(execution_ref=REF),
    nhh.ToolLoopSuspected(execution_ref=REF, tool_name="send", repetitions=3, action="warned"),
    nhh.VerificationRefused(execution_ref=REF, check="c", feedback="no", refusals=1, max_refusals=3),
    nhh.OversightDecided(execution_ref=REF, subject="commit", decision="accept"),
    nhh.PermissionDecided(execution_ref=REF, name="send_mail", kind="function", decision="deny"),
    nhh.ProgressReported(execution_ref=REF, message="reading", done=1, total=2),
)
"""An event of each type that needs no people."""


def running(hooks: nh.Hooks | list[nh.Hooks], **options: Any) -> Any:
    """A run of steps that end at once."""
    return nh.run(ScriptedExecutor(default_response=pass_response()), hooks=hooks, **options)
