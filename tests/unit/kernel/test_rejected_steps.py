"""A step that oversight or a hook refused: nobody tries it again, votes over it or puts a default there."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.hooks import BeforeCommit, StepStarted, Veto
from nighthawk_async.resilience import Baseline, fallback, retrying, vote
from nighthawk_async.testing import ScriptedExecutor, pass_response

pytestmark = pytest.mark.anyio

Act = Callable[[], Awaitable[Any]]


@nh.natural_function
async def act(number: int = 0) -> int:
    """natural
    Set <:number>.
    """
    return number


class Refusing:
    """Rejects every commit, and counts them."""

    def __init__(self) -> None:
        self.asked = 0

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Reject:
        self.asked += 1
        return nh.oversight.Reject(reason="no", guidance="something else")


def under_a_baseline(act: Act) -> Act:
    async def act_in_a_scope() -> Any:
        with nh.scope(resilience=Baseline(retries=retrying(attempts=3, wait=0))):
            return await act()

    return act_in_a_scope


REPEATING: list[Any] = [
    pytest.param(lambda act: act, id="nothing"),
    pytest.param(lambda act: retrying(act, wait=0), id="retrying"),
    pytest.param(lambda act: retrying(act, on=Exception, wait=0), id="retrying on everything"),
    pytest.param(lambda act: fallback(act, default=1), id="fallback"),
    pytest.param(lambda act: fallback(act, act, on=Exception), id="fallback on everything"),
    pytest.param(under_a_baseline, id="baseline"),
]


@pytest.mark.parametrize("repeating", REPEATING)
async def test_a_rejected_commit_is_final(repeating: Callable[[Act], Act]) -> None:
    oversight = Refusing()
    async with nh.run(ScriptedExecutor(default_response=pass_response(number=1))):
        with (
            nh.scope(oversight=oversight),
            pytest.raises(nh.errors.StepRejectedError, match="something else") as caught,
        ):
            await repeating(act)()
    assert oversight.asked == 1
    cause = caught.value.__cause__
    assert isinstance(cause, nh.errors.ToolBoundaryError)
    assert (cause.kind, cause.message, cause.guidance) == ("oversight", "no", "something else")


@pytest.mark.parametrize("event_type", [StepStarted, BeforeCommit])
@pytest.mark.parametrize("repeating", REPEATING)
async def test_a_vetoed_step_is_final(repeating: Callable[[Act], Act], event_type: Any) -> None:
    hooks, asked = nh.Hooks(), list[object]()

    @hooks.on(event_type)
    def refuse(event: object) -> Veto:
        asked.append(event)
        return Veto("no")

    async with nh.run(ScriptedExecutor(default_response=pass_response(number=1)), hooks=hooks):
        with pytest.raises(nh.errors.StepRejectedError, match=r"vetoed the (step|commit): no"):
            await repeating(act)()
    assert len(asked) == 1


async def test_a_vote_is_not_held_over_a_refusal() -> None:
    class RefusingOnce(Refusing):
        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
            rejection = super().inspect_step_commit(commit)
            return rejection if self.asked == 1 else nh.oversight.Accept()

    async with nh.run(ScriptedExecutor(default_response=pass_response(number=1))):
        with nh.scope(oversight=RefusingOnce()), pytest.raises(nh.errors.StepRejectedError):
            await vote(act, count=3, min_success=1)()


async def test_python_code_may_handle_the_refusal_like_any_failure_of_a_step() -> None:
    async with nh.run(ScriptedExecutor(default_response=pass_response(number=1))):
        with nh.scope(oversight=Refusing()), pytest.raises(nh.ExecutionError, match=r"no \(something else\)"):
            await act()
