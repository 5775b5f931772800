"""Commands of a step actor, one by one."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.assignment import parse_target_path
from nighthawk_async.kernel.commands import Assign, Awaited, Call, Evaluate, Execute, Resume, StepState
from nighthawk_async.kernel.context import StepNamespace
from tests.unit.kernel.step_contexts import make_context


def make_state(**step_locals: object) -> StepState:
    context = make_context(**step_locals)
    return StepState(context=context, namespace=StepNamespace(context))


async def later() -> int:
    return 1


def test_broken_text_depends_on_nothing_and_claims_nothing() -> None:
    target = parse_target_path("x.y")
    state = make_state()
    assert Evaluate(expression="a b").reads() == frozenset()
    assert Execute(statements="a b").reads() == frozenset()
    assert Execute(statements="a b").claims(state) == frozenset()
    assert Assign(target=target, expression="a b").reads() == {"x"}


def test_claims_are_what_a_command_leaves_unknown_until_it_has_finished() -> None:
    state = make_state(items=[1], function=later, module=pytest, number=5)
    assert Evaluate(expression="items.append(1)").claims(state) == frozenset()
    assert Assign(target=parse_target_path("x.y"), expression="items").claims(state) == {"x"}
    statements = "fresh = await function(items, number, module, rate, unknown, len)"
    assert Execute(statements=statements).claims(state) == {"fresh", "items", "number", "rate"}
    assert Execute(statements="function = 1").claims(state) == {"function"}
    for command in (Call(name="tool", call=later), Resume(continuation=lambda *_: None, value=1)):
        assert command.reads() == command.claims(state) == frozenset()


def test_an_awaited_value_that_is_no_coroutine_needs_no_closing() -> None:
    class Ready:
        def __await__(self) -> Any:
            return iter(())

    Awaited(awaitable=Ready()).close()
    reply = Evaluate(expression="function()").execute(make_state(function=later))
    assert isinstance(reply, Awaited)
    reply.close()


def test_statements_that_could_not_even_begin_are_reported_without_a_line() -> None:
    def run(code: object) -> object:
        raise RecursionError("maximum recursion depth exceeded")

    namespace = cast("StepNamespace", SimpleNamespace(run=run))
    state = StepState(context=make_context(), namespace=namespace)
    with pytest.raises(nh.ToolEvaluationError, match=r"^RecursionError: maximum"):
        Execute(statements="x = 1").execute(state)


def test_statements_are_numbered_within_their_step() -> None:
    state = make_state()
    Execute(statements="def first(): return 1").execute(state)
    Execute(statements="def second(): return 2").execute(state)
    first, second = (cast("Any", state.context.step_locals[name]).__code__ for name in ("first", "second"))
    assert (first.co_filename, second.co_filename) == ("<statements 1>", "<statements 2>")


def test_statements_report_rebound_names_and_no_others() -> None:
    state = make_state(kept=1, rebound=2, gone=3)
    statements = "rebound = 20\nfresh = 1\nkept = kept\ndel gone"
    assert Execute(statements=statements).execute(state) == ["fresh", "rebound"]
