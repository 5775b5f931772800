"""Section 8.3: objects stay what they are annotated as, whatever the code of a step does to them."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator, model_validator
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, return_response
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio


class Range(BaseModel):
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

    def raise_low(self, low: int) -> None:
        self.low = low


class Revalidated(Range):
    model_config = ConfigDict(revalidate_instances="always")


@dataclass
class Span:
    low: int = 0
    high: int = 10
    names: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")

    def raise_low(self, low: int) -> None:
        self.low = low


@pydantic.dataclasses.dataclass
class CheckedSpan:
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def _ordered(self) -> "CheckedSpan":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

    def raise_low(self, low: int) -> None:
        self.low = low


KINDS = [Range, Revalidated, Span, CheckedSpan]


class Box(TypedDict):
    range: Range


@nh.natural_function
async def rewrite(target: Range) -> object:
    """natural
    Rewrite <:target>.
    """
    return target


def rewriting(kind: type[Any]) -> Any:
    @nh.natural_function
    async def rewrite_one(target: kind) -> object:  # type: ignore[valid-type]
        """natural
        Rewrite <:target>.
        """
        return target

    return rewrite_one


def reading(kind: type[Any]) -> Any:
    @nh.natural_function
    async def read_one(target: kind) -> None:  # type: ignore[valid-type]
        """natural
        Look at <target>.
        """

    return read_one


CHANGES = [
    assigning("target.low", "50"),
    executing("target.low = 50"),
    executing("alias = target\nalias.low = 50"),
    evaluating("target.raise_low(50)"),
    evaluating("setattr(target, 'low', 50)"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
async def test_8_3_an_object_that_breaks_its_validator_goes_back_to_the_model(
    change: nh.models.ToolCall, kind: type[Any]
) -> None:
    steps = ScriptedSteps((change, PASS), (executing("target.low = 5"), PASS))
    target = kind()
    async with nh.run(steps.executor):
        await rewriting(kind)(target)
    assert target.low == 5
    refused = steps.envelopes[1]["error"]
    assert refused["kind"] == "invalid_input"
    assert "'target'" in refused["message"]
    assert "low is above high" in refused["message"]


@pytest.mark.parametrize("change", CHANGES)
async def test_8_3_an_object_that_stays_broken_fails_the_step(change: nh.models.ToolCall) -> None:
    steps = ScriptedSteps((change, PASS), max_corrective_turns=0)
    async with nh.run(steps.executor):
        with pytest.raises(nh.ExecutionError, match=r"'target'.*must be Range: .*low is above high"):
            await rewrite(Range())


async def test_8_3_nothing_is_committed_beside_a_broken_object() -> None:
    seen: list[object] = []

    @nh.natural_function
    async def change_both(target: Range, count: int) -> None:
        try:
            """natural
            Change <:target> and <:count>.
            """
        finally:
            seen.append(count)

    steps = ScriptedSteps(
        (assigning("count", "7"), executing("target.low = 50"), PASS), max_corrective_turns=0
    )
    async with nh.run(steps.executor):
        with pytest.raises(nh.ExecutionError):
            await change_both(Range(), 1)
    assert seen == [1]


@pytest.mark.parametrize("change", CHANGES)
async def test_8_3_objects_of_read_bindings_are_outside_the_final_validation(
    change: nh.models.ToolCall,
) -> None:
    target = Range()
    async with nh.run(ScriptedSteps((change, PASS)).executor):
        await reading(Range)(target)
    assert target.low == 50


async def test_8_3_a_local_variable_that_is_written_is_validated_too() -> None:
    @nh.natural_function
    async def look() -> Range:
        limits: Range = Range()
        """natural
        Change <:limits>.
        """
        return limits

    steps = ScriptedSteps((executing("limits.low = 50"), PASS), (executing("limits.low = 1"), PASS))
    async with nh.run(steps.executor):
        assert await look() == Range(low=1)


async def test_8_3_what_the_model_did_not_change_is_not_validated() -> None:
    broken = Range.model_construct(low=50)
    steps = ScriptedSteps((evaluating("target.low"), PASS), (evaluating("target.high"), PASS))
    async with nh.run(steps.executor):
        assert await rewrite(broken) is broken
        await reading(Range)(broken)


async def test_8_3_a_change_that_leaves_an_object_valid_keeps_its_identity() -> None:
    target = Range()
    steps = ScriptedSteps(
        (executing("target.low = 5"), PASS),
        (assigning("target.low", "6"), PASS),
        (assigning("target", "target"), PASS),
        returning("target"),
    )
    async with nh.run(steps.executor):
        for _ in range(4):
            assert await rewrite(target) is target
    assert target.low == 6


async def test_8_3_the_return_expression_may_not_break_an_object_either() -> None:
    @nh.natural_function
    async def give(target: Range) -> int:
        """natural
        Change <:target> and return a number.
        """

    steps = ScriptedSteps(
        returning("setattr(target, 'low', 50) or 1"), (executing("target.low = 5"), returning("2"))
    )
    target = Range()
    async with nh.run(steps.executor):
        assert await give(target) == 2
    assert target.low == 5


async def test_8_3_what_was_changed_is_validated_once_for_each_change() -> None:
    runs: list[int] = []

    class Watched(BaseModel):
        size: int = 0

        @model_validator(mode="after")
        def _note(self) -> "Watched":
            runs.append(self.size)
            return self

    @nh.natural_function
    async def give(target: Watched) -> int:
        """natural
        Change <:target> and return a number.
        """

    target = Watched()
    runs.clear()
    steps = ScriptedSteps((executing("target.size = 1"), returning("'none'")), returning("target.size"))
    async with nh.run(steps.executor):
        assert await give(target) == 1
    assert runs == [1]


async def test_8_3_an_object_that_the_binding_no_longer_means_is_not_validated() -> None:
    old = Range()
    steps = ScriptedSteps((executing("target.low = 50\ntarget = type(target)(low=1)"), PASS))
    async with nh.run(steps.executor):
        assert await rewrite(old) == Range(low=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("annotation", "wrap"),
    [
        ("kind", "{}"),
        ("kind | None", "{}"),
        ("list[kind]", "[{}]"),
        ("dict[str, tuple[kind, ...]]", "{{'a': ({},)}}"),
        ("Annotated[kind, AfterValidator(lambda each: each)]", "{}"),
    ],
)
async def test_9_a_broken_object_is_not_returned(annotation: str, wrap: str, kind: type[Any]) -> None:
    @nh.natural_function
    async def give(target: Any) -> eval(annotation, {**globals(), "kind": kind}):  # type: ignore[valid-type]
        """natural
        Return <target>.
        """

    target = kind()
    target.low = 50
    async with nh.run(ScriptedExecutor([return_response(wrap.format("target"))])):
        with pytest.raises(nh.ExecutionError, match=r"the return value must be .*low is above high"):
            await give(target)


@pytest.mark.parametrize("kind", KINDS)
async def test_8_3_a_broken_object_of_exactly_the_annotated_class_is_not_committed(kind: type[Any]) -> None:
    target = kind()
    target.low = 50
    async with nh.run(ScriptedExecutor([pass_response(target=target)])):
        with pytest.raises(nh.ExecutionError, match=r"'target' must be .*low is above high"):
            await rewriting(kind)(kind())


async def test_9_the_items_of_a_typed_dictionary_are_validated() -> None:
    @nh.natural_function
    async def give(target: Any) -> Box:
        """natural
        Return <target>.
        """

    box = {"range": Range()}
    async with nh.run(ScriptedExecutor([return_response("target")] * 2)):
        assert await give(box) is box
        box["range"].low = 50
        with pytest.raises(nh.ExecutionError, match="at range: Value error, low is above high"):
            await give(box)


async def test_9_a_valid_object_is_checked_and_not_converted_again() -> None:
    runs: list[str] = []

    class Secret(BaseModel):
        password: str = ""

        @field_validator("password")
        @classmethod
        def _hash(cls, value: str) -> str:
            runs.append("field")
            return f"#{value}"

        @model_validator(mode="after")
        def _note(self) -> "Secret":
            runs.append("model")
            return self

    @nh.natural_function
    async def give(target: Any) -> Secret:
        """natural
        Return <target>.
        """

    secret = Secret(password="x")
    runs.clear()
    async with nh.run(ScriptedExecutor([return_response("target")])):
        assert await give(secret) is secret
    assert (secret.password, runs) == ("#x", ["model"])


@nh.natural_function
async def rewrite_numbers(numbers: Annotated[list[int], AfterValidator(sorted)]) -> object:
    """natural
    Change <:numbers>.
    """
    return numbers


async def test_8_3_a_list_that_was_changed_in_place_must_match_its_annotation() -> None:
    steps = ScriptedSteps((executing("numbers.append('x')"), PASS), (executing("numbers[-1] = '3'"), PASS))
    numbers = [1]
    async with nh.run(steps.executor):
        assert await rewrite_numbers(numbers) is numbers  # only what is assigned is converted
    assert numbers == [1, "3"]
    message = steps.envelopes[1]["error"]["message"]
    assert message.startswith(
        "write binding 'numbers', whose object was changed in place, must be list[int]: "
    )
    assert message.endswith(": at 1: Input should be a valid integer, unable to parse string as an integer")
