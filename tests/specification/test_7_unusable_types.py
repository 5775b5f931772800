"""Section 7: a type that no value can be validated against is reported before the first request."""

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.resilience import retrying
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, pass_response
from tests.cases import every
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning

pytestmark = pytest.mark.anyio

HAS_BAD_TYPED_DICT = sys.version_info < (3, 12)


class Old(typing.TypedDict):
    name: str


class New(TypedDict):
    name: str


@dataclass
class Unfinished:
    part: "Nowhere"  # type: ignore[name-defined]


class Refusing:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        raise LookupError("no schema today")


class Plain:
    pass


@nh.natural_function
async def bind_unfinished(text: str) -> None:
    count: int = 0
    result: Unfinished | None = None
    """natural
    Set <:count> and <:result> from <text>.
    """
    print(count, result)


@nh.natural_function
async def bind_unresolved(text: str) -> None:
    result: list[Nowhere] = []  # type: ignore[name-defined]
    """natural
    Set <:result> from <text>.
    """
    print(result)


@nh.natural_function
async def bind_refusing(result: Refusing) -> None:
    """natural
    Set <:result>.
    """


@nh.natural_function
async def return_unfinished(text: str) -> list[Unfinished]:
    """natural
    Return something about <text>.
    """


@nh.natural_function
async def return_unresolved(text: str) -> "Nowhere":  # type: ignore[name-defined]
    """natural
    Return something about <text>.
    """


@nh.natural_function
async def bind_old(text: str) -> None:
    result: list[Old] = []
    """natural
    Set <:result> from <text>.
    """
    print(result)


@nh.natural_function
async def return_old(text: str) -> Old:
    """natural
    Return something about <text>.
    """


MISTAKES: list[Any] = [
    (bind_unfinished, r"write binding 'result' has the type .*Unfinished.*cannot be validated.*Nowhere"),
    (bind_unresolved, r"annotation of write binding 'result'.*Nowhere"),
    (bind_refusing, r"write binding 'result' has the type Refusing.*LookupError: no schema today"),
    (return_unfinished, r"the return value has the type .*Unfinished"),
    (return_unresolved, r"annotation of the return value.*Nowhere"),
    *(
        [
            (bind_old, r"write binding 'result' has the type .*Old.*typing_extensions.TypedDict"),
            (return_old, r"the return value has the type Old.*typing_extensions.TypedDict"),
        ]
        if HAS_BAD_TYPED_DICT
        else []
    ),
]


@every("function, message", MISTAKES)
@every("transport", ["tool", "native", "direct"])
@every("is_small", [False, True])
async def test_7_a_type_that_cannot_be_validated_is_told_before_the_first_request(
    function: Callable[..., Any], message: str, transport: Any, is_small: bool
) -> None:
    capabilities = nh.models.ModelCapabilities(
        is_small=is_small, structured_output=True, structured_output_with_tools=True
    )
    model = ScriptedModel([], capabilities=capabilities)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        with pytest.raises(nh.errors.AnnotationError, match=message) as caught:
            await function("x")
    assert not model.requests
    assert isinstance(caught.value, nh.ExecutionError)
    assert f"step {__name__}:" in str(caught.value)


async def test_7_nobody_tries_a_step_again_whose_types_are_wrong() -> None:
    model = ScriptedModel([])
    attempts: list[str] = []

    async def attempt() -> None:
        attempts.append("one")
        await return_unfinished("x")

    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with pytest.raises(nh.errors.AnnotationError):
            await retrying(attempts=3)(attempt)()
    assert attempts == ["one"]


async def test_7_the_direct_transport_refuses_a_class_without_a_json_schema_before_any_request() -> None:
    @nh.natural_function
    async def bind(text: str) -> object:
        first: str = ""
        second: Plain | None = None
        """natural
        Set <:first> and <:second> from <text>.
        """
        return first, second

    for is_small in (False, True):
        model = ScriptedModel(
            [], capabilities=nh.models.ModelCapabilities(is_small=is_small, structured_output=True)
        )
        configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
        async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
            with pytest.raises(
                nh.errors.AnnotationError, match=r"'second' has the type .*Plain.*no JSON Schema"
            ):
                await bind("x")
        assert not model.requests


def use_unfinished(part: Unfinished) -> str:
    """Use it."""
    return str(part)


def use_plain(name: str, plain: Plain) -> str:
    """Use it."""
    return str(plain)


def use_old(old: Old) -> str:
    """Use it."""
    return str(old)


def use_unresolved(part: "Nowhere") -> str:  # type: ignore[name-defined]
    """Use it."""
    return str(part)


TOOLS: list[Any] = [
    (use_unfinished, r"'use_unfinished' .* its parameter 'part' has the type Unfinished"),
    (use_plain, r"'use_plain' .* its parameter 'plain' has the type Plain"),
    (use_unresolved, r"'use_unresolved': the annotation of 'part' cannot be resolved"),
    *(
        [(use_old, r"'use_old' .* its parameter 'old' .*typing_extensions.TypedDict")]
        if HAS_BAD_TYPED_DICT
        else []
    ),
]


@pytest.mark.parametrize(("function", "message"), TOOLS)
@pytest.mark.parametrize("transport", ["tool", "native"])
async def test_8_3_a_tool_whose_parameter_has_no_schema_is_told_before_the_first_request(
    function: Callable[..., Any], message: str, transport: Any
) -> None:
    @nh.natural_function
    async def work() -> None:
        """natural
        Work.
        """

    capabilities = nh.models.ModelCapabilities(structured_output=True, structured_output_with_tools=True)
    model = ScriptedModel([], capabilities=capabilities)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        nh.tool(function)
        with pytest.raises(nh.ToolRegistrationError, match=message):
            await work()
    assert not model.requests


async def test_8_3_a_field_whose_type_cannot_be_validated_is_assigned_without_validation() -> None:
    @nh.natural_function
    async def change(target: Any) -> None:
        """natural
        Change <target>.
        """

    class Holder:
        part: Refusing

    target = Holder()
    steps = ScriptedSteps(assigning("target.part", "5"), PASS)
    async with nh.run(steps.executor):
        await change(target)
    assert target.part == 5  # type: ignore[comparison-overlap]


class Order(BaseModel):
    items: list[New] = []


async def test_7_the_class_of_a_value_counts_only_where_values_can_be_validated_against_it() -> None:
    @nh.natural_function
    async def change() -> object:
        part = Unfinished(part=1)
        order = Order()
        """natural
        Change <:part> and <:order>.
        """
        return part, order

    async with nh.run(ScriptedExecutor([pass_response(part=3, order={"items": [{"name": "a"}]})])):
        assert await change() == (3, Order(items=[{"name": "a"}]))
