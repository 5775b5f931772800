"""What errors quote of models, providers and values is exported only where content is."""

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelServer,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    raise_response,
    return_response,
)

from .agents import OUTCOME, act, agent, compute, evaluate
from .test_span_attributes import endpoint_of
from .traces import Traces, telemetry

pytestmark = pytest.mark.anyio

QUOTED = "MARKER-7731"


@nh.natural_function
async def count() -> int:
    number: int = 0
    """natural
    Set <:number>.
    """
    return number


def exported(traces: Traces) -> dict[str, str]:
    """Every text of a trace, by where it stands."""
    texts: dict[str, str] = {}
    for span in traces.spans:
        texts |= {f"{span.name} {name}": str(value) for name, value in (span.attributes or {}).items()}
        texts[f"{span.name} status"] = str(span.status.description)
        for event in span.events:
            texts |= {f"{event.name} {name}": str(value) for name, value in (event.attributes or {}).items()}
    return texts


def quoting(traces: Traces) -> set[str]:
    return {place for place, text in exported(traces).items() if QUOTED in text}


FAILED = {
    "nighthawk.step.failed nighthawk.step.error_message",
    "exception exception.message",
    "exception exception.stacktrace",
    "nighthawk.step status",
}


def talking(**configuration: Any) -> nh.AgentStepExecutor:
    """A model that says what is no outcome, again and again."""
    answer = json.dumps({"result": {"kind": "pass", "bindings": {"number": QUOTED}}})
    return nh.AgentStepExecutor.from_model(
        model=ScriptedModel(lambda request: model_response(text=answer)),
        configuration=nh.StepExecutorConfiguration(**configuration),
    )


class Wary:
    """Quotes what it rejects."""

    def __init__(self, commit: nh.oversight.Reject | nh.oversight.Abort | None = None) -> None:
        self.commit = commit

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        return nh.oversight.Reject(
            reason=f"not {inspection.arguments}", guidance=f"nor {inspection.arguments}"
        )

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        return self.commit or nh.oversight.Accept()


def refuse(proposal: nh.oversight.Proposal) -> str:
    return f"not {QUOTED}"


def explode(event: nh.hooks.BeforeCommit) -> None:
    raise KeyError(QUOTED)


def veto(event: nh.hooks.BeforeCommit) -> nh.hooks.Veto:
    return nh.hooks.Veto(f"not {QUOTED}", guidance=QUOTED)


def hooks_with(function: Any) -> nh.Hooks:
    hooks = nh.Hooks()
    hooks.on(nh.hooks.BeforeCommit, function)
    return hooks


PASSING = ScriptedExecutor(default_response=pass_response(number=1))
FAILURES: Mapping[str, tuple[Any, Mapping[str, Any], str]] = {
    "a model that ends no block": (talking(), {}, "no acceptable outcome after 3 corrections"),
    "a model that has no turn left": (talking(max_turns=1), {}, "(max_turns)"),
    "a direct answer": (talking(outcome_transport="direct"), {}, "no acceptable answer after 3 corrections"),
    "a value of another type": (
        ScriptedExecutor(default_response=pass_response(number=QUOTED)),
        {},
        "write binding 'number' must be int",
    ),
    "an expression that raises": (
        ScriptedExecutor(default_response=return_response(f"int('{QUOTED}')")),
        {},
        "ValueError",
    ),
    "an exception that is not allowed": (
        ScriptedExecutor(default_response=raise_response(QUOTED, QUOTED)),
        {},
        "its exception type is not allowed",
    ),
    "a rejected commit": (
        PASSING,
        {"oversight": Wary(nh.oversight.Reject(reason=QUOTED, guidance=QUOTED))},
        "oversight rejected the commit",
    ),
    "an aborted step": (PASSING, {"oversight": Wary(nh.oversight.Abort(QUOTED))}, "aborted"),
    "a vetoed commit": (PASSING, {"hooks": hooks_with(veto)}, "veto vetoed"),
    "a hook that fails": (PASSING, {"hooks": hooks_with(explode)}, "failed at BeforeCommit: KeyError"),
    "a check": (
        PASSING,
        {"verify": nh.oversight.verification(refuse, max_refusals=1)},
        "refused the outcome",
    ),
}


async def fail_in(executor: Any, scope: Mapping[str, Any]) -> None:
    async with nh.run(executor), nh.scope(**scope):
        with pytest.raises(nh.NighthawkError):
            await count()


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_step_says_what_happened_without_what_the_error_quotes(
    traces: Traces, failure: str
) -> None:
    executor, scope, own_words = FAILURES[failure]
    await fail_in(executor, scope)
    assert quoting(traces) == set()
    told = exported(traces)
    assert all(own_words in told[place] for place in FAILED)


@pytest.mark.parametrize("failure", sorted(FAILURES.keys() - {"a value of another type"}))
async def test_where_content_is_shown_errors_are_told_as_they_are(traces: Traces, failure: str) -> None:
    executor, scope, _ = FAILURES[failure]
    with telemetry(capture_content="span_only"):
        await fail_in(executor, scope)
    assert quoting(traces) >= FAILED


@pytest.mark.parametrize(
    ("reply", "own_words"),
    [
        (ModelReply(status=400, text=QUOTED), "the HTTP status 400"),
        (ModelReply(error={"message": QUOTED, "type": QUOTED}), "the provider reported an error"),
        (ModelReply(body=f"data: {QUOTED}\n\n".encode()), "not what the protocol promises"),
    ],
)
async def test_what_a_provider_says_of_an_error_is_not_exported(
    traces: Traces, reply: ModelReply, own_words: str
) -> None:
    async with ModelServer([reply] * 4) as server, nh.run(endpoint_of(server, max_retries=0)):
        with pytest.raises(nh.ModelError, match=QUOTED):
            await act()
    assert quoting(traces) == set()
    assert own_words in exported(traces)["nighthawk.step.failed nighthawk.step.error_message"]


async def test_a_step_below_a_tool_says_no_more(traces: Traces) -> None:
    def respond(request: nh.models.ModelRequest) -> Any:
        if "Do less." in str(request.messages[0]):
            return model_response(text=QUOTED)
        return model_response(*([evaluate("inner()")] if len(request.messages) == 1 else []), OUTCOME)

    async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel(respond))):
        await compute()
    assert quoting(traces) == set()
    assert len(traces.named("nighthawk.step_executor")) == 2


async def test_reasons_that_quote_arguments_are_told_where_content_is(traces: Traces) -> None:
    for captures in (False, True):
        with telemetry(capture_content=captures):
            async with nh.run(agent(evaluate(repr(QUOTED)))), nh.scope(oversight=Wary()):
                await act()
        (decided,) = (
            event for event in traces.only("execute_tool").events if event.name.endswith("oversight.decided")
        )
        assert (decided.attributes or {})["nighthawk.oversight.decision"] == "reject"
        assert bool(quoting(traces)) is captures
        assert ("nighthawk.oversight.reason" in (decided.attributes or {})) is captures
        traces.spans.clear()


async def test_what_the_program_itself_raises_and_a_raise_outcome_says_is_exported(traces: Traces) -> None:
    async def answer(call: StepCall) -> StepResponse:
        raise RuntimeError("own words") from KeyError(QUOTED)

    async with nh.run(CallbackExecutor(answer)):
        with pytest.raises(RuntimeError):
            await count()
    told = exported(traces)
    assert all("own words" in told[place] for place in FAILED)
    assert "test_error_texts.py" in told["exception exception.stacktrace"]
    assert "KeyError" in told["exception exception.stacktrace"]
    assert quoting(traces) == set()
    async with nh.run(ScriptedExecutor([raise_response(QUOTED)])):
        with pytest.raises(nh.ExecutionError, match=QUOTED):
            await count()
    assert quoting(traces) == {"nighthawk.step.raised nighthawk.step.raise_message"}


def test_what_an_error_says_without_content_survives_its_copies() -> None:
    error = nh.ExecutionError(f"broken: {QUOTED}").without_content("broken")
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.message_without_content) == (f"broken: {QUOTED}", "broken")
    assert nh.ExecutionError("whole").message_without_content == "whole"


@nh.natural_function
async def rendered(data: str) -> None:
    frontmatter = data
    f"""natural
    ---
    {frontmatter}
    ---
    Do it.
    """


async def test_a_rendered_block_that_is_no_program_is_not_quoted(traces: Traces) -> None:
    async with nh.run(PASSING):
        with pytest.raises(nh.NaturalParseError, match=QUOTED):
            await rendered(f"deny: [{QUOTED}]")
    assert quoting(traces) == set()
    assert "is no natural program" in exported(traces)["nighthawk.step.failed nighthawk.step.error_message"]
