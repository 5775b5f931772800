"""Section 8.1: Python locals, step locals, the parent step context, and the commit."""

# ruff: noqa: F841 - natural blocks use variables that ruff cannot see

from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    StepCall,
    StepResponse,
    break_response,
    continue_response,
    pass_response,
    raise_response,
    return_response,
)
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

LEVEL = "module"
COUNTER = 0


async def locals_of(function: Any, *arguments: Any, **bindings: Any) -> dict[str, object]:
    executor = ScriptedExecutor(default_response=pass_response(**bindings))
    async with nh.run(executor):
        await function(*arguments)
    return dict(executor.calls[0].step_locals)


# ---- where step locals come from


@nh.natural_function
async def plain(first: int, *rest: int, flag: bool = False, **options: int) -> None:
    """natural
    Look at <first>.
    """


async def test_8_1_step_locals_start_from_the_python_locals() -> None:
    async def call() -> None:
        await plain(1, 2, 3, flag=True, extra=4)

    assert await locals_of(call) == {"first": 1, "rest": (2, 3), "flag": True, "options": {"extra": 4}}


async def test_8_1_step_locals_are_those_of_the_moment_when_the_block_begins() -> None:
    @nh.natural_function
    async def growing() -> None:
        early = 1
        """natural
        First block with <early>.
        """
        late = 2
        early = late
        del late
        """natural
        Second block with <early>.
        """

    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        await growing()
    assert [dict(call.step_locals) for call in executor.calls] == [{"early": 1}, {"early": 2}]


async def test_8_1_resolved_globals_and_builtins_stay_out_of_step_locals() -> None:
    @nh.natural_function
    async def reading() -> None:
        """natural
        Read <LEVEL>, <len> and <NotThere>.
        """

    @nh.natural_function
    async def reading_well() -> None:
        """natural
        Read <LEVEL> and <len>.
        """

    assert await locals_of(reading_well) == {}
    with pytest.raises(NameError, match="NotThere"):
        await locals_of(reading)


async def test_8_1_free_variables_are_step_locals() -> None:
    outer_value = "outer"

    @nh.natural_function
    async def reading() -> str:
        """natural
        Read <outer_value>.
        """
        return outer_value

    assert await locals_of(reading) == {"outer_value": "outer"}


async def test_8_1_free_variables_are_live() -> None:
    value = "before"

    @nh.natural_function
    async def reading() -> str:
        """natural
        Read <value>.
        """
        return value

    value = "after"
    assert await locals_of(reading) == {"value": "after"}


async def test_8_1_what_only_a_text_mentions_has_the_value_seen_at_decoration() -> None:
    value = "at decoration"
    holder: Any = {"a": 1}

    @nh.natural_function
    async def reading() -> None:
        """natural
        Read <value> and <holder.a>.
        """

    value = "later"
    assert await locals_of(reading) == {"value": "at decoration", "holder": {"a": 1}}
    assert value == "later"


async def test_8_1_a_natural_enclosing_function_keeps_such_names_live() -> None:
    @nh.natural_function
    async def enclosing() -> dict[str, object]:
        value = "before"

        @nh.natural_function
        async def inner() -> None:
            """natural
            Read <value>.
            """

        value = "after"
        """natural
        Do nothing.
        """
        await inner()
        return {"value": value}

    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        await enclosing()
    assert executor.calls[1].step_locals["value"] == "after"


async def test_8_1_names_of_a_class_body_do_not_leak_into_its_methods() -> None:
    class Holder:
        secret = "class"
        LEVEL = "class"

        @nh.natural_function
        async def method(self) -> None:
            """natural
            Read <LEVEL>.
            """

        @nh.natural_function
        async def lost(self) -> None:
            """natural
            Read <secret>.
            """

        @classmethod
        @nh.natural_function
        async def of_class(cls) -> None:
            """natural
            Read <LEVEL>.
            """

        @nh.natural_function
        @staticmethod
        async def static(value: int) -> None:
            """natural
            Read <value>.
            """

    holder = Holder()
    steps = ScriptedSteps((evaluating("LEVEL"), PASS), (evaluating("LEVEL"), PASS), PASS)
    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        await holder.method()
        await Holder.of_class()
        await holder.static(3)
        with pytest.raises(NameError, match="secret"):
            await holder.lost()
    assert [dict(call.step_locals) for call in executor.calls] == [
        {"self": holder},
        {"cls": Holder},
        {"value": 3},
    ]
    assert executor.calls[0].referenced_globals == {"LEVEL": "module"}
    async with nh.run(steps.executor):
        await holder.method()
    assert steps.model.requests[0].messages


# ---- a parent step


@nh.natural_function
async def child(own: int) -> object:
    """natural
    Work with <own>.
    """


@nh.natural_function
async def parent(shared: str, own: str = "parent's") -> object:
    """natural
    Call <child> with what is in <shared> and <own>.
    """


async def test_8_1_a_step_called_by_another_starts_from_its_step_locals() -> None:
    executor: Any = None

    async def answer(call: StepCall) -> StepResponse:
        if "shared" in call.natural_program:
            actor = nh.get_current_step_actor()
            await actor.settle(actor.post_assign("found", "'in parent'"))
            return return_response("child(5)")
        return return_response("(shared, own, found)")

    executor = CallbackExecutor(answer)
    async with nh.run(executor, code="python"):
        assert await parent("s") == ("s", 5, "in parent")
    assert dict(executor.calls[1].step_locals) == {"shared": "s", "own": 5, "found": "in parent"}


async def test_8_1_a_child_step_does_not_change_its_parents_step_locals() -> None:
    async def answer(call: StepCall) -> StepResponse:
        actor = nh.get_current_step_actor()
        if "shared" in call.natural_program:
            await actor.settle(actor.post_evaluate("child(5)"))
            return return_response("(own, 'fresh' in locals())")
        await actor.settle(actor.post_execute("own = 'changed'\nfresh = 1"))
        return pass_response()

    async with nh.run(CallbackExecutor(answer), code="python"):
        assert await parent("s") == ("parent's", False)


async def test_8_1_an_inherited_name_does_not_hide_what_the_block_means() -> None:
    @nh.natural_function
    async def reading(call_child: bool) -> object:
        """natural
        Read <LEVEL>, and <LEVEL.upper>, and <sorted>.
        """

    async def answer(call: StepCall) -> StepResponse:
        if "shared" in call.natural_program:
            actor = nh.get_current_step_actor()
            await actor.settle(actor.post_execute("LEVEL = 'parent'\nsorted = 'parent'\nother = 1"))
            return return_response("reading(True)")
        return return_response("(LEVEL, sorted([2, 1]), other)")

    references = {"reading": reading}
    async with nh.run(CallbackExecutor(answer), code="python"), nh.scope(implicit_references=references):
        result: Any = await parent("s")
    assert result == ("module", [1, 2], 1)


async def test_8_1_a_name_that_is_nowhere_else_is_that_of_the_parent() -> None:
    @nh.natural_function
    async def borrowing() -> object:
        """natural
        Read <borrowed> and <borrowed.upper>.
        """

    async def answer(call: StepCall) -> StepResponse:
        if "shared" in call.natural_program:
            actor = nh.get_current_step_actor()
            await actor.settle(actor.post_assign("borrowed", "'of the parent'"))
            return return_response("borrowing()")
        return return_response("borrowed")

    async with nh.run(CallbackExecutor(answer)):
        with nh.scope(implicit_references={"borrowing": borrowing}):
            assert await parent("s") == "of the parent"
        with pytest.raises(NameError, match="borrowed"):
            await borrowing()


async def test_8_1_an_unbound_local_variable_is_not_found_in_the_parent() -> None:
    @nh.natural_function
    async def unbound() -> None:
        """natural
        Read <shared>.
        """
        shared = 1
        del shared

    async def answer(call: StepCall) -> StepResponse:
        return return_response("unbound()")

    async with nh.run(CallbackExecutor(answer)), nh.scope(implicit_references={"unbound": unbound}):
        with pytest.raises(nh.ExecutionError, match="UnboundLocalError"):
            await parent("s")


async def test_8_1_recursion_gives_each_call_its_own_step() -> None:
    @nh.natural_function
    async def countdown(number: int) -> list[int]:
        """natural
        Count down from <number> by calling <countdown>.
        """

    async def answer(call: StepCall) -> StepResponse:
        if call.step_locals["number"] == 0:
            return return_response("[0]")
        return return_response("[number] + await countdown(number - 1)")

    async with nh.run(CallbackExecutor(answer)):
        assert await countdown(3) == [3, 2, 1, 0]


# ---- the commit


async def test_8_1_values_of_write_bindings_are_committed_to_python_locals() -> None:
    @nh.natural_function
    async def committing(kept: int) -> tuple[int, int, str]:
        changed = 1
        """natural
        Set <:changed> and <:fresh>; look at <kept>.
        """
        return kept, changed, fresh

    async with nh.run(ScriptedExecutor([pass_response(changed=2, fresh="f")])):
        assert await committing(0) == (0, 2, "f")


async def test_8_1_only_write_bindings_are_committed() -> None:
    @nh.natural_function
    async def reading(kept: int) -> int:
        """natural
        Look at <kept>.
        """
        return kept

    steps = ScriptedSteps((assigning("kept", "99"), executing("kept = 100"), PASS))
    async with nh.run(steps.executor):
        assert await reading(1) == 1


async def test_8_1_a_commit_is_all_or_nothing() -> None:
    @nh.natural_function
    async def committing(seen: list[object]) -> None:
        first, second = 1, 2
        try:
            """natural
            Set <:first> and <:second>.
            """
        finally:
            seen.append((first, second))

    seen: list[object] = []
    async with nh.run(ScriptedExecutor([pass_response(first=5, second="no number")])):
        with pytest.raises(nh.ExecutionError, match="'second' must be int"):
            await committing(seen)
    assert seen == [(1, 2)]


async def test_8_1_bindings_are_committed_whatever_the_outcome() -> None:
    @nh.natural_function
    async def looping(seen: list[int]) -> int:
        number = 0
        try:
            while True:
                """natural
                Set <:number>, then go on, stop, return or raise ValueError.
                """
                break
            return -number
        finally:
            seen.append(number)

    for response, expected in (
        (pass_response(number=1), -1),
        (break_response(number=2), -2),
        (return_response("number + 100", number=3), 103),
    ):
        seen: list[int] = []
        async with nh.run(ScriptedExecutor([response])):
            assert await looping(seen) == expected
        assert seen == [abs(expected) % 100]
    seen = []
    async with nh.run(
        ScriptedExecutor([continue_response(number=4), raise_response("no", "ValueError", number=5)])
    ):
        with pytest.raises(ValueError, match="no"):
            await looping(seen)
    assert seen == [5]


async def test_8_1_a_write_binding_without_any_value_is_an_error() -> None:
    @nh.natural_function
    async def forgetting() -> str:
        """natural
        Set <:fresh>.
        """
        return fresh

    async with nh.run(ScriptedExecutor([pass_response()])):
        with pytest.raises(nh.ExecutionError, match="'fresh' has no value"):
            await forgetting()


async def test_8_1_a_global_write_binding_reaches_the_module() -> None:
    @nh.natural_function
    async def counting() -> None:
        global COUNTER
        """natural
        Increase <:COUNTER>.
        """

    steps = ScriptedSteps(
        (assigning("COUNTER", "COUNTER + 5"), PASS), (assigning("COUNTER", "'x'"), PASS), PASS
    )
    try:
        async with nh.run(steps.executor):
            await counting()
            assert COUNTER == 5
            await counting()
        assert "must be int" in str(steps.results[0].content)
        assert COUNTER == 5
    finally:
        globals()["COUNTER"] = 0


async def test_8_1_a_nonlocal_write_binding_reaches_its_variable() -> None:
    total = 1

    @nh.natural_function
    async def adding(amount: int) -> None:
        nonlocal total
        """natural
        Add <amount> to <:total>.
        """

    steps = ScriptedSteps((assigning("total", "total + amount"), PASS))
    async with nh.run(steps.executor):
        await adding(41)
    assert total == 42


async def test_8_1_closures_made_before_a_block_see_what_it_commits() -> None:
    @nh.natural_function
    async def closing() -> int:
        value = 1

        def read() -> int:
            return value

        """natural
        Set <:value>.
        """
        return read()

    async with nh.run(ScriptedExecutor([pass_response(value=7)])):
        assert await closing() == 7


# ---- generators


async def test_8_1_generators_and_async_generators_run_a_block_when_they_come_to_it() -> None:
    @nh.natural_function
    async def numbers(limit: int) -> Any:
        for index in range(limit):
            value = index
            """natural
            Set <:value> from <index>, or stop.
            """
            yield value

    responses = [pass_response(value=10), continue_response(), break_response()]
    async with nh.run(ScriptedExecutor(responses)):
        assert [value async for value in numbers(5)] == [10]


def test_8_1_a_synchronous_generator_runs_its_blocks_too() -> None:
    @nh.natural_function
    def numbers(limit: int) -> Any:
        for index in range(limit):
            value = index
            """natural
            Set <:value> from <index>.
            """
            yield value

    with nh.run(ScriptedExecutor([pass_response(value=5), return_response("None")])):
        assert list(numbers(3)) == [5]


async def test_8_1_a_returned_expression_sees_the_values_of_the_step() -> None:
    @nh.natural_function
    async def returning_early(items: list[int]) -> int:
        """natural
        Return a number from <items>.
        """

    steps = ScriptedSteps((executing("best = max(items)"), returning("best")))
    async with nh.run(steps.executor):
        assert await returning_early([1, 9, 3]) == 9
