"""User code that misbehaves while a step calls it: the model sees the failure, the step goes on."""

import asyncio
import types
from collections.abc import Generator
from typing import Any, NoReturn

import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

END = tool_call("nh_outcome", kind="pass")


class LazyProxy:
    """Like the request object of some web frameworks outside of a request."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(f"working outside of a request: {name}")


request = LazyProxy()


def cancelled() -> NoReturn:
    raise asyncio.CancelledError


async def cancelled_later() -> NoReturn:
    await anyio.lowlevel.checkpoint()
    raise asyncio.CancelledError


@nh.natural_function
async def use_them() -> str:
    """natural
    Look at <request>, then call <cancelled> and <cancelled_later>.
    """
    return "went on"


async def errors_of(*calls: Any) -> list[str]:
    """What the model saw of the calls, in a step that then ended well."""
    model = ScriptedModel([model_response(*calls), model_response(END)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await use_them() == "went on"
    message = model.requests[1].messages[-1]
    assert isinstance(message, nh.models.ToolResultsMessage)
    return [str(result.content[0]) for result in message.results if result.is_error]


async def test_a_proxy_that_raises_on_every_attribute_is_only_named() -> None:
    assert await errors_of(tool_call("nh_eval", expression="request")) == []


async def test_the_error_of_a_proxy_is_an_observation() -> None:
    (error,) = await errors_of(tool_call("nh_eval", expression="request.path"))
    assert "working outside of a request: path" in error


@pytest.mark.parametrize("expression", ["cancelled()", "cancelled_later()", "await cancelled_later()"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_is_not_the_steps_is_an_observation(expression: str) -> None:
    (error,) = await errors_of(tool_call("nh_eval", expression=expression))
    assert '"kind": "execution"' in error
    assert "ancelled" in error


@pytest.mark.parametrize("error_type", ["BaseException", "GeneratorExit", "SystemExit"])
async def test_exceptions_that_are_no_errors_end_nothing(error_type: str) -> None:
    (error,) = await errors_of(tool_call("nh_exec", statements=f"raise {error_type}('out')"))
    assert error_type in error


@types.coroutine
def from_a_generator() -> Generator[Any, Any, int]:
    yield from anyio.lowlevel.checkpoint().__await__()
    return 7


def numbers() -> Generator[int, None, None]:
    yield 1


@nh.natural_function
async def use_generators() -> object:
    """natural
    Return something of <from_a_generator> or <numbers>.
    """
    raise AssertionError("the block returns")


async def test_generator_based_coroutines_are_awaited_and_generators_are_values() -> None:
    executor = ScriptedExecutor([return_response("from_a_generator()"), return_response("numbers()")])
    async with nh.run(executor):
        assert await use_generators() == 7
        assert list(await use_generators()) == [1]  # type: ignore[call-overload]
