"""Exceptions of the program: types of `except` clauses around a block, and the objects that calls raise."""

import builtins
import traceback
from types import SimpleNamespace
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, raise_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating, executing

pytestmark = pytest.mark.anyio


class ShopClosedError(Exception):
    pass


class OutOfStockError(LookupError):
    def __init__(self, item: str, left: int) -> None:
        super().__init__(item, left)
        self.item = item


shop = SimpleNamespace(ClosedError=ShopClosedError)
BOTH = (ShopClosedError, TimeoutError)


class Errors:
    Strike = type("Strike", (Exception,), {})


@nh.natural_function
async def order(item: str) -> str:
    local: Any = OutOfStockError
    found = ""
    try:
        try:
            """natural
            Order <item>, and set <:found>.
            """
        except (local, KeyError):
            return "inner"
        else:
            """natural
            Set <:found> again.
            """
        finally:
            found += "."
    except shop.ClosedError:
        return "closed"
    except Errors.Strike:
        return "strike"
    except (*BOTH, builtins.ZeroDivisionError):
        return "both"
    return found


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("KeyError", "inner"),
        ("shop.ClosedError", "closed"),
        ("ClosedError", "closed"),
        ("Errors.Strike", "strike"),
        ("Strike", "strike"),
        ("TimeoutError", "both"),
        ("builtins.ZeroDivisionError", "both"),
        ("ZeroDivisionError", "both"),
    ],
)
async def test_the_types_of_the_clauses_around_a_block_may_be_raised(name: str, result: str) -> None:
    async with nh.run(ScriptedExecutor([raise_response("no", name)])):
        assert await order("tea") == result


async def test_a_block_beside_a_clause_has_only_those_around_it() -> None:
    executor = ScriptedExecutor([pass_response(found="a"), pass_response(found="b")])
    async with nh.run(executor):
        assert await order("tea") == "b."
    first, second = (call.raise_error_types for call in executor.calls)
    outer = (
        "shop.ClosedError",
        "Errors.Strike",
        "ShopClosedError",
        "TimeoutError",
        "builtins.ZeroDivisionError",
    )
    assert first == ("local", "KeyError", *outer)
    assert second == outer
    async with nh.run(ScriptedExecutor([raise_response("no", "ValueError")])):
        with pytest.raises(nh.ExecutionError, match="not allowed"):
            await order("tea")


async def test_groups_and_handlers() -> None:
    @nh.natural_function
    async def grouped() -> str:
        try:
            """natural
            Do it.
            """
        except* ShopClosedError as closed:
            return_value = str(closed.exceptions)
        try:
            raise ValueError
        except ValueError:
            """natural
            Do it again.
            """

        return return_value

    executor = ScriptedExecutor([raise_response("at night", "ShopClosedError"), pass_response()])
    async with nh.run(executor):
        assert await grouped() == "(ShopClosedError('at night'),)"
    assert [call.raise_error_types for call in executor.calls] == [("ShopClosedError",), ()]


async def test_what_is_no_exception_of_the_program_is_left_out() -> None:
    def choose() -> type[Exception]:
        return ValueError

    failures: Any = {"x": ValueError}

    @nh.natural_function
    async def careful() -> None:
        try:
            """natural
            Do it.
            """
        except choose():
            pass
        except failures["x"]:
            pass
        except (nh.ExecutionError, nh.errors.ModelError):
            pass
        except missing.Error:  # type: ignore[name-defined]  # pyright: ignore
            pass
        except (KeyboardInterrupt, BaseException):
            raise

    executor = ScriptedExecutor([pass_response()])
    async with nh.run(executor):
        await careful()
    assert executor.calls[0].raise_error_types == ()


def test_synchronous_functions_and_frontmatter() -> None:
    @nh.natural_function
    def careful(limit: int) -> str:
        while True:
            try:
                """natural
                ---
                deny: [pass]
                ---
                Count to <limit>.
                """
            except OverflowError as error:
                return str(error)

    with nh.run(ScriptedExecutor([raise_response("too far", "OverflowError")])):
        assert careful(3) == "too far"
    with nh.run(ScriptedExecutor([pass_response()])), pytest.raises(nh.ExecutionError):
        careful(3)


# ---- the very object


def fetch(item: str) -> str:
    try:
        raise ConnectionError("the line is dead")
    except ConnectionError as error:
        raise OutOfStockError(item, 0) from error


async def fetch_later(item: str) -> str:
    return fetch(item)


@nh.natural_function
async def buy(item: str) -> str:
    """natural
    Buy <item> with <fetch> or <fetch_later>.
    """
    return item


@nh.natural_function
async def buy_or_not(item: str) -> Any:
    try:
        """natural
        Buy <item> with <fetch>.
        """
    except LookupError as error:
        return error
    return item


def raising(expression: str) -> nh.models.ToolCall:
    return nh.models.ToolCall(
        id="end", name="nh_outcome", arguments=f'{{"kind": "raise", "raise_expression": "{expression}"}}'
    )


CAUGHT = "try:\n    {call}\nexcept LookupError as error:\n    seen = error"


@pytest.mark.parametrize(
    "calls",
    [
        (evaluating("fetch(item)"), raising("nh_error")),
        (evaluating("fetch_later(item)"), raising("nh_error")),
        (executing("kept = fetch(item)"), raising("nh_error")),
        (executing(CAUGHT.format(call="fetch(item)")), raising("seen")),
        (executing(CAUGHT.format(call="await fetch_later(item)")), raising("seen")),
        (executing("def call():\n    return fetch(item)"), evaluating("call()"), raising("nh_error")),
    ],
)
async def test_the_very_object_that_a_call_raised_is_raised_again(calls: Any) -> None:
    steps = ScriptedSteps(*calls)
    async with nh.run(steps.executor):
        with pytest.raises(OutOfStockError) as caught:
            await buy("tea")
    error = caught.value
    assert (error.args, error.item) == (("tea", 0), "tea")
    assert isinstance(error.__cause__, ConnectionError)
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "fetch"
    assert "buy" in names


async def test_what_a_called_natural_function_raises_is_raised_again() -> None:
    raised = OutOfStockError("tea", 1)

    def fail() -> None:
        raise raised

    @nh.natural_function
    async def outer(call: Any) -> None:
        """natural
        Use <call>.
        """

    steps = ScriptedSteps(evaluating("call()"), raising("nh_error"))
    async with nh.run(steps.executor):
        with pytest.raises(OutOfStockError) as caught:
            await outer(fail)
    assert caught.value is raised


async def test_builtins_raise_too() -> None:
    steps = ScriptedSteps(executing("number = int(item)"), raising("nh_error"))
    async with nh.run(steps.executor):
        with pytest.raises(ValueError, match="invalid literal"):
            await buy("tea")


@pytest.mark.parametrize(
    "statements",
    [
        "try:\n    raise KeyError('mine')\nexcept KeyError as error:\n    seen = error",
        "seen = KeyError('mine')",
        "def own():\n    raise KeyError('me')\ntry:\n    own()\nexcept KeyError as error:\n    seen = error",
        "try:\n    assert not item\nexcept AssertionError as error:\n    seen = error",
    ],
)
async def test_exceptions_of_the_models_own_are_refused(statements: str) -> None:
    steps = ScriptedSteps((executing(statements), raising("seen")), PASS)
    async with nh.run(steps.executor):
        assert await buy("tea") == "tea"
    assert "must give an exception that the block may raise" in str(steps.model.requests[-1].messages[-1])


async def test_a_failure_of_the_models_own_has_no_name() -> None:
    steps = ScriptedSteps(executing("raise KeyError('mine')"), raising("nh_error"), PASS)
    async with nh.run(steps.executor):
        assert await buy("tea") == "tea"
    assert "nh_error" in str(steps.model.requests[-1].messages[-1])
    assert "The block can raise" not in str(steps.model.requests[-1].messages)


async def test_the_model_is_told_where_the_program_handles_errors() -> None:
    steps = ScriptedSteps(evaluating("fetch(item)"), raising("nh_error"))
    async with nh.run(steps.executor):
        error = await buy_or_not("tea")
    assert isinstance(error, OutOfStockError)
    assert error.__traceback__ is not None
    hint = "The block can raise this exception: raise_expression nh_error."
    assert hint in str(steps.model.requests[-1].messages[-1])
    steps = ScriptedSteps(evaluating("fetch(item)"), PASS)
    async with nh.run(steps.executor):
        await buy("tea")
    assert hint not in str(steps.model.requests[-1].messages[-1])


async def test_the_name_is_no_variable() -> None:
    steps = ScriptedSteps(
        evaluating("fetch(item)"),
        evaluating("['nh_error' in globals(), type(nh_error).__name__]"),
        executing("nh_error = 1"),
        evaluating("nh_error"),
        PASS,
        context_limits=nh.StepContextLimits(),
    )
    async with nh.run(steps.executor):
        await buy("tea")
    values = [each.get("value") for each in steps.envelopes]
    assert [False, "OutOfStockError"] in values
    assert values[-1] == 1


async def test_it_is_visible_where_only_named_things_are() -> None:
    limits = nh.StepContextLimits(visible_names="named")
    steps = ScriptedSteps(evaluating("fetch(item)"), raising("nh_error"), context_limits=limits)
    async with nh.run(steps.executor):
        with pytest.raises(OutOfStockError):
            await buy("tea")
