"""Answers as data pass hooks, oversight, permissions and the guards of a step, as assignments do."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import nighthawk_async as nh
import nighthawk_async.hooks as nhh
from nighthawk_async import observe
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

TRANSPORTS = ("tool", "direct")


@nh.natural_function
async def rate(text: str) -> tuple[str, int]:
    label: str
    stars: int = 0
    """natural
    Set <:label> and <:stars> for <text>.
    """
    return label, stars


def answer(transport: str, **bindings: object) -> ModelResponse:
    if transport == "tool":
        return model_response(tool_call("nh_outcome", kind="pass", bindings=bindings))
    return model_response(text=json.dumps({"result": {"kind": "pass", "bindings": bindings}}))


def scripted(transport: str, *answers: Any) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel(answers)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)  # type: ignore[arg-type]
    return model, nh.AgentStepExecutor.from_model(model=model, configuration=configuration)


class Watching:
    """Oversight that answers as it is told, and remembers what it saw."""

    def __init__(self, decide: Any) -> None:
        self.decide = decide
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.commits: list[nh.oversight.StepCommit] = []

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        self.calls.append((inspection.tool_name, dict(inspection.arguments)))
        return self.decide(inspection.arguments)

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        self.commits.append(commit)
        return nh.oversight.Accept()


def reject_high(arguments: Mapping[str, Any]) -> nh.oversight.Accept | nh.oversight.Reject:
    is_high = arguments["target_path"] == "stars" and arguments["value"] > 5
    return nh.oversight.Reject(reason="at most five stars") if is_high else nh.oversight.Accept()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_oversight_sees_each_value_as_an_assignment_and_may_reject_it(transport: str) -> None:
    model, executor = scripted(
        transport, answer(transport, label="good", stars=9), answer(transport, label="good", stars=5)
    )
    watching = Watching(reject_high)
    async with nh.run(executor), nh.scope(oversight=watching):
        assert await rate("fine") == ("good", 5)
    assert watching.calls[:2] == [
        ("nh_assign", {"target_path": "label", "value": "good"}),
        ("nh_assign", {"target_path": "stars", "value": 9}),
    ]
    assert [dict(commit.bindings) for commit in watching.commits] == [{"label": "good", "stars": 5}]
    assert "bindings.stars: at most five stars; these are set already: label" in str(model.requests[1])


async def test_oversight_may_rewrite_a_value() -> None:
    _, executor = scripted("tool", answer("tool", label="good", stars=9))

    def lower(arguments: Mapping[str, Any]) -> nh.oversight.Rewrite:
        expression = {"target_path": arguments["target_path"], "expression": "min(5, 9)"}
        return nh.oversight.Rewrite(values=expression if arguments["target_path"] == "stars" else arguments)

    async with nh.run(executor), nh.scope(oversight=Watching(lower)):
        assert await rate("fine") == ("good", 5)


async def test_oversight_is_shown_a_returned_value_at_once() -> None:
    @nh.natural_function
    async def count(text: str) -> int:
        """natural
        Count <text>.
        """

    end = tool_call("nh_outcome", kind="return", return_value="3")
    _, executor = scripted("tool", model_response(end))
    watching = Watching(lambda _: nh.oversight.Accept())
    async with nh.run(executor), nh.scope(oversight=watching):
        assert await count("a b c") == 3
    (commit,) = watching.commits
    assert commit.return_value == 3
    assert commit.outcome == nh.executors.ReturnStepOutcome(return_value=3)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_hooks_see_each_value_and_may_veto_or_modify_it(transport: str) -> None:
    hooks = nh.Hooks()
    seen: list[object] = []

    @hooks.on(nhh.BeforeToolCall)
    def before(event: nhh.BeforeToolCall) -> nhh.Veto | nhh.Modify | None:
        seen.append((event.tool_name, event.call_id, dict(event.arguments)))
        if event.arguments.get("value") == "bad":
            return nhh.Veto("be kind")
        if event.arguments["target_path"] == "stars":
            return nhh.Modify({"target_path": "stars", "value": 4})
        return None

    @hooks.on(nhh.AfterToolCall)
    def after(event: nhh.AfterToolCall) -> None:
        seen.append((event.call_id, event.is_error))

    model, executor = scripted(
        transport, answer(transport, label="bad", stars=1), answer(transport, label="good", stars=1)
    )
    async with nh.run(executor, hooks=hooks):
        assert await rate("fine") == ("good", 4)
    assert seen[:4] == [
        ("nh_assign", "bindings.label", {"target_path": "label", "value": "bad"}),
        ("bindings.label", True),
        ("nh_assign", "bindings.stars", {"target_path": "stars", "value": 1}),
        ("bindings.stars", False),
    ]
    assert "bindings.label: be kind" in str(model.requests[1])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_rule_about_nh_assign_holds_for_data(transport: str) -> None:
    model, executor = scripted(transport, answer(transport, label="good"), answer(transport, label="bad"))
    permissions = nh.permissions(
        default="allow",
        deny=[nh.policies.rule("nh_assign", when=lambda call: call.arguments.get("value") == "good")],
    )
    async with nh.run(executor, permissions=permissions):
        assert await rate("fine") == ("bad", 0)
    assert "bindings.label: " in str(model.requests[1])


async def test_budgets_of_tool_calls_do_not_count_data() -> None:
    _, executor = scripted("tool", answer("tool", label="good", stars=5))
    budget = nh.budget(tool_calls=1)
    async with nh.run(executor, budget=budget):
        assert await rate("fine") == ("good", 5)


async def test_the_tree_shows_what_an_answer_commits_and_no_calls() -> None:
    _, executor = scripted("tool", answer("tool", label="good", stars=5))
    with observe.recording() as tree:
        async with nh.run(executor):
            await rate("fine")
    nodes = list(below(tree.snapshot()))
    (step,) = [node for node in nodes if node.kind == "step"]
    assert dict(step.outputs) == {"label": '"good"', "stars": "5"}
    assert not [node for node in nodes if node.kind == "tool_call"]


def below(node: observe.NodeView) -> Iterator[observe.NodeView]:
    yield node
    for child in node.children:
        yield from below(child)
