"""Section 7: a value is converted to its type once, whatever way it takes."""

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    Base64Bytes,
    Base64Str,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Json,
    PlainValidator,
    SecretStr,
    Tag,
    WrapValidator,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.kernel.environment import get_environment
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    pass_response,
    return_response,
    tool_call,
)
from tests.cases import every
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

runs: list[int] = []


def to_cents(dollars: int) -> int:
    runs.append(dollars)
    return dollars * 100


Cents = Annotated[int, AfterValidator(to_cents)]


class Tags(BaseModel):
    tags: list[str]

    @field_validator("tags", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        return value.split(",")


class Payload(BaseModel):
    data: Json[list[int]]


class Line(TypedDict):
    price: Cents


class Order(BaseModel):
    price: Cents
    count: int = 1


def setting(kind: Any) -> Any:
    @nh.natural_function
    async def set_it(text: str) -> object:
        found: kind  # type: ignore[valid-type]
        """natural
        Set <:found> from <text>.
        """
        return found

    return set_it


def giving(kind: Any) -> Any:
    @nh.natural_function
    async def give(text: str = "", given: Any = None) -> kind:  # type: ignore[valid-type]
        """natural
        Return <given>, or what is in <text>.
        """

    return give


async def result_of(function: Any, *calls: ToolCall, **arguments: Any) -> Any:
    async with nh.run(ScriptedSteps(calls, max_corrective_turns=0).executor):
        return await function("x", **arguments)


def giving_value(value: object) -> ToolCall:
    return tool_call("nh_outcome", kind="return", return_value=value)


CONVERTED: list[Any] = [
    (Cents, 5, 500),
    (list[Cents], [5, 6], [500, 600]),
    (dict[str, Cents], {"a": 5}, {"a": 500}),
    (Cents | None, 5, 500),
    (tuple[Cents, ...], [5], (500,)),
    (tuple[Cents, str], [5, "a"], (500, "a")),
    (Line, {"price": 5}, {"price": 500}),
    (Json[list[int]], "[1]", [1]),
    (Json, "[1]", [1]),
    (Base64Str, "YWI=", "ab\n"[:2]),
    (Annotated[list[str], BeforeValidator(lambda text: text.split(","))], "a,b", ["a", "b"]),
    (Annotated[list[int], WrapValidator(lambda value, handler: [handler([value])])], 5, [[5]]),
    (Annotated[str, PlainValidator(lambda value: value + "!")], "a", "a!"),
    (Annotated[str, AfterValidator(lambda text: text.split(","))], "a,b", ["a", "b"]),
    (Annotated[float, AfterValidator(lambda dollars: round(dollars * 100))], 5, 500),
]


@every("kind, value, converted", CONVERTED)
@every(
    "ways",
    [
        lambda value: [tool_call("nh_outcome", kind="pass", bindings={"found": value})],
        lambda value: [tool_call("nh_assign", target_path="found", value=value), PASS],
        lambda value: [assigning("found", repr(value)), PASS],
        lambda value: [executing(f"found = {value!r}"), PASS],
        lambda value: [
            assigning("found", repr(value)),
            evaluating("str(found)"),
            assigning("text", "1"),
            PASS,
        ],
        lambda value: [executing(f"found = {value!r}"), assigning("found", "found"), PASS],
        lambda value: [assigning("found", repr(value)), assigning("found", "found"), PASS],
        lambda value: [assigning("found", repr(value)), executing("found = found"), PASS],
    ],
)
async def test_7_every_way_to_set_a_variable_converts_it_once(
    ways: Callable[[Any], list[ToolCall]], kind: Any, value: object, converted: object
) -> None:
    assert await result_of(setting(kind), *ways(value)) == converted


@pytest.mark.parametrize(("kind", "value", "converted"), CONVERTED)
async def test_9_every_way_to_return_a_value_converts_it_once(
    kind: Any, value: object, converted: object
) -> None:
    assert await result_of(giving(kind), giving_value(value)) == converted
    assert await result_of(giving(kind), returning(repr(value))) == converted


@pytest.mark.parametrize(("kind", "value", "converted"), CONVERTED)
async def test_9_a_variable_of_the_same_type_is_returned_as_it_is(
    kind: Any, value: object, converted: object
) -> None:
    @nh.natural_function
    async def find(text: str) -> kind:  # type: ignore[valid-type]
        found: kind  # type: ignore[valid-type]
        """natural
        Set <:found> from <text>, and return it.
        """
        return found

    @nh.natural_function
    async def find_by_two(text: str) -> kind:  # type: ignore[valid-type]
        found: kind  # type: ignore[valid-type]  # noqa: F842
        """natural
        Set <:found> from <text>.
        """
        """natural
        Return <found>.
        """

    @nh.natural_function
    async def pass_on(text: str, given: kind) -> kind:  # type: ignore[valid-type]
        """natural
        Return <given>.
        """
        return given

    data = tool_call("nh_outcome", kind="pass", bindings={"found": value})
    assert await result_of(find, assigning("found", repr(value)), returning("found")) == converted
    assert await result_of(find, data) == converted
    async with nh.run(ScriptedSteps((data,), (returning("found"),)).executor):
        assert await find_by_two("x") == converted
    assert await result_of(pass_on, returning("given"), given=converted) == converted
    assert await result_of(pass_on, PASS, given=converted) == converted


async def test_9_a_value_that_python_has_changed_is_converted_as_any_other() -> None:
    @nh.natural_function
    async def find(text: str) -> Cents:
        found: Cents
        """natural
        Set <:found> from <text>.
        """
        found = 7
        return found

    assert await result_of(find, executing("found = 5"), PASS) == 700


async def test_9_the_result_of_a_natural_function_is_returned_as_it_is() -> None:
    find = giving(Cents)

    @nh.natural_function
    async def pass_on(text: str) -> Cents | None:
        """natural
        Return what <find> finds in <text>.
        """
        return await find(text)

    async with nh.run(ScriptedExecutor([return_response("find(text)"), return_response("5")])):
        assert await pass_on("x") == 500
    async with nh.run(ScriptedExecutor([pass_response(), return_response("5")])):
        assert await pass_on("x") == 500


@pytest.mark.parametrize(
    "call", ["price({})", "price(amount={})", "[await price({})][0]", "str(price) and price({})"]
)
async def test_8_3_arguments_of_natural_functions_are_converted_once(call: str) -> None:
    @nh.natural_function
    async def price(amount: Cents) -> int:
        """natural
        Return <amount>.
        """

    @nh.natural_function
    async def find(text: str) -> int:
        found: Cents
        """natural
        Set <:found> from <text>, and return its <price>.
        """
        return found

    for argument, given in (("5", 500), ("found", 500), ("found + 1", 50_100)):
        steps = ScriptedSteps(
            (assigning("found", "5"), returning(call.format(argument))), (returning("amount"),)
        )
        async with nh.run(steps.executor):
            assert await find("x") == given


async def test_7_a_validator_runs_once_for_each_value() -> None:
    runs.clear()
    await result_of(setting(Cents), assigning("found", "5"), evaluating("found"), PASS)
    await result_of(giving(Cents), giving_value(6))
    await result_of(giving(Cents), returning("7"))
    assert runs == [5, 6, 7]


async def test_7_a_value_is_converted_once_though_the_step_goes_on() -> None:
    @nh.natural_function
    async def find(text: str) -> Cents:
        found: Cents
        """natural
        Set <:found> from <text>, and return it.
        """
        return found

    steps = ScriptedSteps((executing("found = 5"), returning("nothing")), (returning("found"),))
    async with nh.run(steps.executor):
        assert await find("x") == 500
    steps = ScriptedSteps((executing("found = 5"), returning("nothing")), (PASS,))
    async with nh.run(steps.executor):
        assert await find("x") == 500


async def test_7_an_equal_number_that_is_assigned_anew_is_converted() -> None:
    calls = (assigning("found", "1"), executing("found = 100"), PASS)
    assert await result_of(setting(Cents), *calls) == 10_000


async def test_7_what_code_changes_in_place_is_checked_and_not_converted() -> None:
    calls = (assigning("found", "[5]"), executing("found.append(7)"), PASS)
    assert await result_of(setting(list[Cents]), *calls) == [500, 7]
    with pytest.raises(nh.ExecutionError, match="should be a valid integer"):
        await result_of(setting(list[int]), assigning("found", "[5]"), executing("found.append('x')"), PASS)


@pytest.mark.parametrize("arguments", [{"outputs": {"found": Cents}}, {"outputs": {"found": list[Cents]}}])
async def test_7_steps_at_run_time_convert_once(arguments: Any) -> None:
    value, converted = (5, 500) if arguments["outputs"]["found"] is Cents else ([5], [500])
    async with nh.run(ScriptedSteps((assigning("found", repr(value)), PASS)).executor):
        assert (await nh.step("Set <:found>.", **arguments)).found == converted
    async with nh.run(ScriptedSteps(returning("5")).executor):
        assert await nh.step("Return it.", returns=Cents) == 500


async def test_7_small_models_answer_with_values_that_are_converted_once() -> None:
    small = nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False)
    model = ScriptedModel([model_response(text='{"found": 5}')], capabilities=small)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await setting(Cents)("x") == 500


@pytest.mark.parametrize("transport", ["direct", "native"])
async def test_7_other_transports_convert_once(transport: Any) -> None:
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    text = '{"result": {"kind": "pass", "bindings": {"found": 5}}}'
    model = ScriptedModel([model_response(text=text)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        assert await setting(Cents)("x") == 500


async def test_10_what_oversight_leaves_as_it_is_is_not_converted_again() -> None:
    class Overseer:
        def inspect_tool_call(self, call: nh.oversight.ToolCallInspection) -> nh.oversight.Decision:
            return nh.oversight.Accept()

        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Decision:
            return nh.oversight.Rewrite(values=dict(commit.bindings))

    async with (
        nh.run(ScriptedSteps((assigning("found", "5"), PASS)).executor),
        nh.scope(oversight=Overseer()),
    ):
        assert await setting(Cents)("x") == 500


def test_7_functions_without_async_convert_once() -> None:
    @nh.natural_function
    def find(text: str) -> Cents:
        found: Cents
        """natural
        Set <:found> from <text>.
        """
        return found

    with nh.run(ScriptedSteps((assigning("found", "5"), PASS)).executor):
        assert find("x") == 500


class Wrapped(BaseModel):
    data: Annotated[list[int], WrapValidator(lambda value, handler: [handler([value])])]
    text: Annotated[str, PlainValidator(lambda value: value + "!")]
    words: Annotated[str, AfterValidator(lambda text: text.split(","))]
    nested: Annotated[list[Any], BeforeValidator(lambda value: [value])]


class Encoded(BaseModel):
    model_config = ConfigDict(strict=True)

    data: Base64Bytes
    secret: SecretStr
    size: Annotated[ByteSize, AfterValidator(lambda size: size)]


class Early(BaseModel):
    price: int

    @model_validator(mode="before")
    @classmethod
    def unpack(cls, data: Any) -> Any:
        return {"price": data["dollars"] * 100}


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    tags: Annotated[list[str], BeforeValidator(lambda text: text.split(","))]


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


def kind_of(data: Any) -> Any:
    return data["kind"]


Pet = Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)]


@dataclass
class Spread:
    price: Cents
    words: str | list[str]
    unit: InitVar[str] = "m"

    def __post_init__(self, unit: str) -> None:
        self.words = self.words.split(",")  # type: ignore[union-attr]


@dataclass
class Split:
    words: str | list[str]

    def __post_init__(self) -> None:
        self.words = self.words.split(",")  # type: ignore[union-attr]


class Taxed(BaseModel):
    lines: list[int]

    @model_validator(mode="after")
    def add_tax(self) -> "Taxed":
        self.lines.append(len(self.lines))
        return self


INSTANCES: list[Any] = [
    (Tags, Tags(tags="a,b")),  # type: ignore[arg-type]
    (Payload, Payload(data="[1]")),  # type: ignore[arg-type]
    (list[Payload], [Payload(data="[1]")]),  # type: ignore[arg-type]
    (dict[str, Payload | None], {"a": Payload(data="[1]"), "b": None}),  # type: ignore[arg-type]
    (Order, Order(price=5)),
    (Wrapped, Wrapped(data=5, text="a", words="a,b", nested=5)),  # type: ignore[arg-type]
    (Encoded, Encoded(data=b"YWI=", secret=SecretStr("x"), size=5)),  # type: ignore[arg-type]
    (Early, Early.model_validate({"dollars": 5})),
    (Cat | Dog, Cat(tags="a,b")),  # type: ignore[arg-type]
    (Pet, Cat(tags="a,b")),  # type: ignore[arg-type]
    (list[Pet], [Cat(tags="a,b"), Dog()]),  # type: ignore[arg-type]
    (Spread, Spread(500, "a,b")),
    (Split, Split("a,b")),
    (Taxed, Taxed(lines=[1])),
    (Mapping[str, Tags], {"a": Tags(tags="a,b")}),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("kind", "value"), INSTANCES)
async def test_9_a_valid_object_is_valid_as_it_is(kind: Any, value: Any) -> None:
    before = repr(value)

    @nh.natural_function
    async def keep(text: str, given: kind) -> kind:  # type: ignore[valid-type]
        """natural
        Look at <given>, or return it.
        """
        return given

    @nh.natural_function
    async def change(text: str, given: kind) -> object:  # type: ignore[valid-type]
        """natural
        Change <:given>.
        """
        return given

    assert await result_of(keep, PASS, given=value) is value
    assert await result_of(keep, returning("given"), given=value) is value
    assert await result_of(giving(kind), returning("given"), given=value) is value
    assert await result_of(change, assigning("given", "given"), PASS, given=value) is value
    assert repr(value) == before


async def test_9_an_object_that_an_expression_has_made_is_valid_as_it_is() -> None:
    @nh.natural_function
    async def give(text: str) -> Payload:
        """natural
        Return the <Payload> in <text>.
        """

    assert await result_of(give, returning("Payload(data='[1]')")) == Payload(data="[1]")  # type: ignore[arg-type]


async def test_8_3_a_field_is_converted_once() -> None:
    @nh.natural_function
    async def change(text: str, order: Order) -> Cents:
        """natural
        Change <:order>.
        """
        return order.price

    order = Order(price=5)
    await result_of(change, assigning("order.price", "7"), returning("order.price"), order=order)
    assert order.price == 700
    calls = (assigning("order.price", "order.price"), returning("order.price"))
    assert await result_of(change, *calls, order=order) == 700


async def test_a_check_still_sees_what_code_breaks() -> None:
    class Positive(BaseModel):
        size: Annotated[int, AfterValidator(lambda size: size)] = 1

        @field_validator("size")
        @classmethod
        def check(cls, value: int) -> int:
            if value < 0:
                raise ValueError("negative")
            return value

    @nh.natural_function
    async def change(text: str, given: Positive) -> object:
        """natural
        Change <:given>.
        """
        return given

    with pytest.raises(nh.ExecutionError, match="negative"):
        await result_of(change, executing("given.size = -1"), PASS, given=Positive())
    broken = Positive()
    broken.size = -1
    with pytest.raises(nh.ExecutionError, match="negative"):
        await result_of(giving(Positive), returning("given"), given=broken)


async def test_9_a_tuple_with_an_unpacked_tuple_may_be_returned() -> None:
    @nh.natural_function
    async def give(text: str) -> tuple[int, *tuple[str, ...]]:
        """natural
        Return the parts of <text>.
        """
        return (1, "a", "b")

    assert await result_of(give, PASS) == (1, "a", "b")
    assert await result_of(give, returning("(1, 'a')")) == (1, "a")
    assert await result_of(give, giving_value([1, "a"])) == (1, "a")
    with pytest.raises(nh.ExecutionError, match="return value must be"):
        await result_of(give, returning("('x', 'a')"))


class SettingExecutor:
    """Sets the variable through the actor of its step, as coding agents do."""

    async def run_step_async(
        self, *, step_context: Any, **arguments: Any
    ) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        step = get_environment().step
        assert step is not None
        await step.actor.settle(step.actor.post_assign("found", data=5))
        return nh.executors.PassStepOutcome(), step_context.changed_bindings()


@pytest.mark.parametrize("executor", [SettingExecutor(), ScriptedExecutor([pass_response(found=5)])])
async def test_7_every_life_of_a_run_converts_once(executor: Any, tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        for _ in range(3):
            async with nh.run(executor, journal=store, run_id="once"):
                assert await setting(Cents)("x") == 500
