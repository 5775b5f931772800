"""Specification 9: what a natural function returns matches its annotation, by whichever way it returns."""

# ruff: noqa: RET503 - falling off the end is what some of these functions are for

import gc
import sys
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, NoReturn, Protocol, Self, TypeVar

import pytest
from pydantic import AfterValidator, BaseModel

import nighthawk_async as nh
from nighthawk_async.resilience import fallback, retrying, vote
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    break_response,
    model_response,
    pass_response,
    raise_response,
    return_response,
)
from tests.specification.scripted_steps import PASS, ScriptedSteps, returning
from tests.unit.observe.told_nodes import ToldNode

if TYPE_CHECKING:
    from somewhere import Elsewhere  # type: ignore[import-not-found]

Item = TypeVar("Item")


class Order(BaseModel):
    """What is ordered."""

    items: list[str]


@dataclass
class Place:
    """Where it is sent."""

    street: str


class Colour(StrEnum):
    """A text that is more."""

    RED = "red"


class Numbers(list[int]):
    """A list that is more."""


class Pair(NamedTuple):
    """A tuple that is more."""

    first: int
    second: int


def passing(**configuration: Any) -> ScriptedExecutor:
    return ScriptedExecutor(default_response=pass_response(**configuration))


@nh.natural_function
async def price(result: Any) -> float:
    """natural
    Look at <result>.
    """
    return result


@nh.natural_function
def price_from_sync(result: Any) -> float:
    """natural
    Look at <result>.
    """
    return result


class Shop:
    """Every kind of method."""

    @nh.natural_function
    async def method(self, result: Any) -> float:
        """natural
        Look at <result>.
        """
        return result

    @classmethod
    @nh.natural_function
    async def of_the_class(cls, result: Any) -> float:
        """natural
        Look at <result>.
        """
        return result

    @nh.natural_function
    @staticmethod
    async def static(result: Any) -> "float":
        """natural
        Look at <result>.
        """
        return result


@nh.natural_function
async def outer(result: Any) -> float:
    @nh.natural_function
    async def inner() -> float:
        """natural
        Look at <result>.
        """
        return result

    """natural
    Go on.
    """
    return await inner()


@nh.natural_function
async def branching(result: Any) -> float:
    for _ in range(2):
        """natural
        Look at <result>.
        """
        if result is not None:
            return result
    else:
        return result


FUNCTIONS: list[Any] = [price, Shop().method, Shop.of_the_class, Shop.static, outer, branching]


@pytest.mark.anyio
@pytest.mark.parametrize("function", FUNCTIONS)
async def test_what_a_return_statement_returns_is_validated_as_what_a_block_returns(function: Any) -> None:
    async with nh.run(passing()):
        assert await function(2.5) == 2.5
        converted = await function("2.5")
        assert (converted, type(converted)) == (2.5, float)
        with pytest.raises(nh.ExecutionError) as caught:
            await function("abc")
    message = str(caught.value)
    assert f"{function.__name__}() returned 'abc', which is not what its annotation promises" in message or (
        function is outer and "inner() returned 'abc'" in message
    )
    assert "the return value must be float: Input should be a valid number" in message
    assert "return what is promised, or change the annotation" in message
    assert "abc" not in caught.value.message_without_content


def test_a_synchronous_function_is_no_exception() -> None:
    with nh.run(passing()):
        assert price_from_sync("2.5") == 2.5
        with pytest.raises(nh.ExecutionError, match=r"price_from_sync\(\) returned 'abc'"):
            price_from_sync("abc")


FINISHING = """
import nighthawk_async as nh

@nh.natural_function
async def finishing(result) -> float:
    try:
        'natural\\nLook at <result>.'
    finally:
        return result
"""


@pytest.mark.anyio
async def test_what_a_finally_returns_is_validated_and_python_alone_warns_of_it(tmp_path: Path) -> None:
    file = tmp_path / "finishing.py"
    file.write_text(FINISHING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # since Python 3.14
        code = compile(FINISHING, str(file), "exec")
    program: dict[str, Any] = {"__name__": "finishing"}
    exec(code, program)
    async with nh.run(passing()):
        assert await program["finishing"]("2.5") == 2.5
        with pytest.raises(nh.ExecutionError, match=r"finishing\(\) returned 'abc', which is not"):
            await program["finishing"]("abc")


@pytest.mark.anyio
async def test_falling_off_the_end_returns_none_which_is_validated_too() -> None:
    @nh.natural_function
    async def look(result: Any) -> float:
        """natural
        Look at <result>.
        """
        if result:
            return 1

    @nh.natural_function
    async def look_calmly(result: Any) -> float | None:
        """natural
        Look at <result>.
        """
        if result:
            return 1

    async with nh.run(passing()):
        assert (await look(1), await look_calmly(1), await look_calmly(0)) == (1, 1, None)
        with pytest.raises(
            nh.ExecutionError, match=r"look\(\) ended without a return statement, so it returned None, which"
        ):
            await look(0)


@pytest.mark.anyio
async def test_a_function_that_promises_nothing_may_return_anything() -> None:
    @nh.natural_function
    async def anything(result):  # type: ignore[no-untyped-def]
        """natural
        Look at <result>.
        """
        return result

    @nh.natural_function
    async def an_object(result: Any) -> object:
        """natural
        Look at <result>.
        """
        return result

    value = object()
    async with nh.run(passing()):
        assert await anything(value) is value
        assert await an_object(value) is value


Rounded = Annotated[float, AfterValidator(lambda number: number + 1)]


@pytest.mark.anyio
async def test_a_value_is_validated_once_whichever_way_it_is_returned() -> None:
    @nh.natural_function
    async def counted() -> Rounded:
        number = 0.0
        """natural
        Set <:number> or return.
        """
        return number

    async with nh.run(ScriptedExecutor([pass_response(number=1.0), return_response("1.0")])):
        assert (await counted(), await counted()) == (2.0, 2.0)


# ---- identity


VALID: list[Any] = [
    pytest.param(list[int], [1, 2], id="list"),
    pytest.param(dict[str, list[Order]], {"a": [Order(items=["x"])]}, id="nested"),
    pytest.param(set[str], {"a", "b"}, id="set"),
    pytest.param(Order, Order(items=["a"]), id="model"),
    pytest.param(Place, Place("High Street"), id="dataclass"),
    pytest.param(list[Place] | None, [Place("High Street")], id="union"),
    pytest.param(Mapping[str, int], {"a": 1}, id="mapping"),
    pytest.param(Iterable[int], [1, 2], id="iterable"),
    pytest.param(Iterator[int], iter([1, 2]), id="iterator"),
    pytest.param(Callable[[int], int], abs, id="callable"),
    pytest.param(tuple[int, ...], (1, 2), id="tuple"),
    pytest.param(Any, object(), id="any"),
    pytest.param(dict[str, int], Counter("aab"), id="a subclass of dict"),
    pytest.param(str, Colour.RED, id="a subclass of str"),
    pytest.param(list[int], Numbers([1, 2]), id="a subclass of list"),
    pytest.param(tuple[int, int], Pair(1, 2), id="a named tuple"),
    pytest.param(Pair, Pair(1, 2), id="a named tuple by its name"),
    pytest.param(bool, True, id="bool"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("annotation", "value"), VALID)
async def test_a_valid_value_stays_the_same_object(annotation: Any, value: Any) -> None:
    @nh.natural_function
    async def give(value: Any) -> annotation:
        """natural
        Look at <value>, or return it.
        """
        return value

    async with nh.run(ScriptedExecutor([pass_response(), return_response("value")])):
        assert await give(value) is value
        assert await give(value) is value


CONVERTED: list[Any] = [
    pytest.param(list[int], [1, "2"], [1, 2], id="an item"),
    pytest.param(list[int], (1, 2), [1, 2], id="another container"),
    pytest.param(list[float], [1], [1.0], id="an equal number"),
    pytest.param(set[int], {True}, {1}, id="an equal member"),
    pytest.param(int, True, 1, id="a truth value"),
    pytest.param(date, datetime(2026, 1, 2), date(2026, 1, 2), id="a point in time"),
    pytest.param(dict[str, int], Counter({"a": True}), {"a": 1}, id="a value of a subclass"),
    pytest.param(Order, {"items": ["a"]}, Order(items=["a"]), id="a model"),
    pytest.param(list[Place], [{"street": "x"}], [Place("x")], id="a dataclass"),
    pytest.param(dict[str, int], {"a": "1"}, {"a": 1}, id="a value"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("annotation", "value", "converted"), CONVERTED)
async def test_what_has_to_be_converted_is(annotation: Any, value: Any, converted: Any) -> None:
    @nh.natural_function
    async def give(value: Any) -> annotation:
        """natural
        Look at <value>, or return it.
        """
        return value

    async with nh.run(ScriptedExecutor([pass_response(), return_response("value")])):
        for _ in range(2):
            given = await give(value)
            assert (given, repr(given)) == (converted, repr(converted))
            assert given is not value


# ---- annotations of every kind


class Builder(Generic[Item]):
    """Annotations that depend on where they stand."""

    @nh.natural_function
    async def itself(self, value: Any) -> Self | None:
        """natural
        Look at <value>, or return it.
        """
        return value

    @nh.natural_function
    async def item(self, value: Item) -> Item:
        """natural
        Look at <value>, or return it.
        """
        return value

    @nh.natural_function
    async def later(self, value: Any) -> "list[Defined]":
        """natural
        Look at <value>, or return it.
        """
        return value


class Defined(BaseModel):
    """Defined after what names it."""

    number: int


@pytest.mark.anyio
async def test_self_type_variables_and_later_names_are_understood() -> None:
    builder = Builder[int]()
    async with nh.run(ScriptedExecutor([pass_response(), return_response("value")] * 4)):
        for _ in range(2):
            assert await builder.itself(builder) is builder
        for _ in range(2):
            assert await builder.item(3) == 3
        for _ in range(2):
            assert await builder.later([{"number": "3"}]) == [Defined(number=3)]
        with pytest.raises(nh.ExecutionError, match="number"):
            await builder.later([{"number": "x"}])


@pytest.mark.anyio
async def test_a_name_of_an_enclosing_function_is_understood() -> None:
    class Local(BaseModel):
        number: int

    @nh.natural_function
    async def give(value: Any) -> "Local":
        """natural
        Look at <value>.
        """
        return value

    async with nh.run(passing()):
        assert await give({"number": 1}) == Local(number=1)
        with pytest.raises(nh.ExecutionError, match=r"give\(\) returned"):
            await give(2)


class Quacking(Protocol):
    """What nothing can be checked against at run time."""

    def quack(self) -> str: ...


@nh.natural_function
async def elsewhere(value: Any) -> "Elsewhere":
    """natural
    Look at <value>, or return it.
    """
    return value


@nh.natural_function
async def quacking(value: Any) -> Quacking:
    """natural
    Look at <value>, or return it.
    """
    return value


@pytest.mark.anyio
@pytest.mark.parametrize("function", [elsewhere, quacking])
async def test_a_type_that_cannot_be_checked_at_run_time_is_reported_before_anything_is_asked(
    function: Any,
) -> None:
    executor = ScriptedExecutor([])
    async with nh.run(executor):
        with pytest.raises(nh.errors.AnnotationError, match="return value"):
            await function(object())
    assert executor.calls == []


@nh.natural_function
async def elsewhere_by_python(value: Any) -> "Elsewhere":
    """natural
    ---
    deny: [return]
    ---
    Look at <value>.
    """
    return value


@nh.natural_function
async def quacking_by_python(value: Any) -> Quacking:
    """natural
    ---
    deny: [return]
    ---
    Look at <value>.
    """
    return value


@pytest.mark.anyio
@pytest.mark.parametrize("function", [elsewhere_by_python, quacking_by_python])
async def test_a_return_statement_is_not_checked_against_what_cannot_be_checked_at_run_time(
    function: Any,
) -> None:
    async with nh.run(ScriptedExecutor([pass_response()])):
        value = object()
        assert await function(value) is value


@nh.natural_function
async def never(value: Any) -> NoReturn:
    """natural
    Raise ValueError.
    """
    if value:
        return value


@nh.natural_function
async def always_raising() -> NoReturn:
    """natural
    Raise ValueError.
    """


@pytest.mark.anyio
async def test_a_function_that_never_returns_is_offered_no_return() -> None:
    executor = ScriptedExecutor([pass_response(), pass_response(), raise_response("bad", "ValueError")])
    async with nh.run(executor):
        for value in (1, 0):
            with pytest.raises(nh.ExecutionError, match="the function must not return"):
                await never(value)
        with pytest.raises(ValueError, match="bad"):
            await always_raising()
    assert [call.allowed_step_kinds for call in executor.calls] == [
        ("pass", "raise"),
        ("pass", "raise"),
        ("raise",),
    ]


# ---- generators


@nh.natural_function
def counting(value: Any) -> Generator[int, None, int]:
    yield 1
    """natural
    Look at <value>.
    """
    if value:
        return value


@nh.natural_function
def iterating(value: Any) -> Iterator[int]:
    yield 1
    """natural
    Look at <value>.
    """
    return value


@nh.natural_function
async def iterating_slowly(value: Any) -> AsyncIterator[int]:
    yield 1
    """natural
    Look at <value>.
    """
    if value:
        return
    yield 2


def value_returned_by(generator: Iterator[int]) -> object:
    next(generator)
    with pytest.raises(StopIteration) as stopped:
        next(generator)
    return stopped.value.value


def test_what_a_generator_returns_is_of_the_type_that_its_annotation_names_for_that() -> None:
    with nh.run(passing()):
        assert value_returned_by(counting("7")) == 7
        assert value_returned_by(iterating("anything")) == "anything"
        for value, named in (("x", "returned 'x'"), (0, "ended without a return")):
            generator = counting(value)
            next(generator)
            with pytest.raises(nh.ExecutionError, match=named):
                next(generator)


@pytest.mark.anyio
async def test_an_async_generator_returns_nothing() -> None:
    async with nh.run(passing()):
        assert [number async for number in iterating_slowly(1)] == [1]
        assert [number async for number in iterating_slowly(0)] == [1, 2]


# ---- what others see of it


@pytest.mark.anyio
async def test_transformers_see_a_violation_as_any_failure() -> None:
    calls: list[str] = []

    @nh.natural_function
    async def unsteady() -> float:
        """natural
        Look.
        """
        calls.append("call")
        return "abc" if len(calls) % 2 else 2.5  # type: ignore[return-value]

    async with nh.run(passing()):
        assert await retrying(unsteady, attempts=2)() == 2.5
        assert await fallback(unsteady, unsteady)() == 2.5
        with pytest.raises(nh.ExecutionError):
            await unsteady()
    assert len(calls) == 5


@pytest.mark.anyio
async def test_a_violation_ends_the_node_of_the_call() -> None:
    tree = ToldNode("tree", "root")
    with tree.watching():
        async with nh.run(passing()):
            with pytest.raises(nh.ExecutionError):
                await price("abc")
            assert await price("2.5") == 2.5
    failed, completed = tree.children[0].children
    assert (failed.kind, failed.state, failed.outputs) == ("function", "failed", {})
    assert isinstance(failed.error, nh.ExecutionError)
    assert (completed.state, completed.outputs) == ("completed", {"return": 2.5})


# ---- `pass` where nothing comes after the block


@nh.natural_function
async def advise(question: str) -> str:
    """natural
    Answer <question>.
    """


@nh.natural_function
async def advise_inline(question: str) -> str:
    question = question.strip()
    f"""natural
    Answer {question}.
    """


@nh.natural_function
async def advise_last(question: str) -> str:
    """Advise."""
    question = question.strip()
    if question:
        with open("/dev/null"):  # noqa: ASYNC230 - any context manager
            match question:
                case _:
                    try:
                        """natural
                        Answer <question>.
                        """
                    except LookupError:
                        return "nothing"
    return None  # type: ignore[return-value]


ADVISING: list[Any] = [advise, advise_inline, advise_last]


@pytest.mark.anyio
@pytest.mark.parametrize("function", ADVISING)
async def test_pass_is_not_offered_where_the_function_would_return_none(function: Any) -> None:
    executor = ScriptedExecutor([return_response("'yes'"), pass_response()])
    async with nh.run(executor):
        assert await function("Shall I?") == "yes"
        with pytest.raises(
            nh.ExecutionError,
            match="the outcome 'pass' is not allowed for this block, because nothing comes after the block, "
            "and the function must return str; allowed: return, raise",
        ):
            await function("Shall I?")
    assert executor.calls[0].allowed_step_kinds == ("return", "raise")


@pytest.mark.anyio
async def test_no_transport_offers_it() -> None:
    steps = ScriptedSteps(PASS, returning("'yes'"))
    async with nh.run(steps.executor):
        assert await advise("Shall I?") == "yes"
    (tool,) = [tool for tool in steps.model.requests[0].tools if tool.name == "nh_outcome"]
    assert tool.parameters["properties"]["kind"]["enum"] == ["return", "raise"]
    assert "- pass:" not in steps.model.requests[0].system_prompt
    assert "'pass' is not allowed here; allowed: return, raise" in steps.envelopes[0]["error"]["message"]

    answers = {
        "native": '{"result": {"kind": "return", "return_expression": "\'yes\'"}}',
        "direct": '{"result": {"kind": "return", "return_value": "yes"}}',
    }
    for transport, answer in answers.items():
        model = ScriptedModel([model_response(text=answer)])
        configuration = nh.StepExecutorConfiguration(outcome_transport=transport)  # type: ignore[arg-type]
        async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
            assert await advise("Shall I?") == "yes"
        request = model.requests[0]
        assert request.response_format is not None
        assert "'pass'" not in str(request.response_format.schema)
        assert "'return'" in str(request.response_format.schema)
        assert "- pass:" not in request.system_prompt


@pytest.mark.anyio
async def test_a_small_model_is_asked_for_the_value_alone() -> None:
    small = nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False)
    text = '{"outcome": {"kind": "return", "return_value": "yes"}}'
    model = ScriptedModel([model_response(text=text)], capabilities=small)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await advise("Shall I?") == "yes"


@nh.natural_function
async def may_pass(question: str) -> str | None:
    """natural
    Answer <question>, or not.
    """


@nh.natural_function
async def goes_on(question: str) -> str:
    """natural
    Answer <question>, or not.
    """
    return "later"


@nh.natural_function
async def loops(question: str) -> str:
    for _ in range(2):
        """natural
        Answer <question>, or break.
        """


@nh.natural_function
async def is_cleaned_up(question: str) -> str:
    try:
        """natural
        Answer <question>, or not.
        """
    finally:
        question = ""
        if not question:
            return "cleaned"  # noqa: B012


@nh.natural_function
async def has_an_else(question: str) -> str:
    try:
        """natural
        Answer <question>, or not.
        """
    except LookupError:
        raise
    else:
        return "else"


@nh.natural_function
async def unannotated(question: str):  # type: ignore[no-untyped-def]
    """natural
    Answer <question>, or not.
    """


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("function", "returned"),
    [
        (may_pass, None),
        (goes_on, "later"),
        (is_cleaned_up, "cleaned"),
        (has_an_else, "else"),
        (unannotated, None),
    ],
)
async def test_pass_is_offered_where_the_function_may_go_on_or_return_none(
    function: Any, returned: object
) -> None:
    executor = ScriptedExecutor([pass_response()])
    async with nh.run(executor):
        assert await function("Shall I?") == returned
    assert executor.calls[0].allowed_step_kinds == ("pass", "return", "raise")


@pytest.mark.anyio
async def test_after_a_loop_it_is_the_end_that_fails() -> None:
    async with nh.run(ScriptedExecutor([break_response()])):
        with pytest.raises(nh.ExecutionError, match=r"loops\(\) ended without a return"):
            await loops("Shall I?")


@pytest.mark.anyio
async def test_frontmatter_that_leaves_nothing_is_an_error_before_any_request() -> None:
    @nh.natural_function
    async def stuck() -> str:
        """natural
        ---
        deny: [return, raise]
        ---
        Think.
        """

    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        with pytest.raises(nh.NaturalParseError, match="pass: nothing comes after the block"):
            await stuck()
    assert steps.model.requests == []


@pytest.mark.anyio
async def test_voters_that_break_the_promise_have_no_vote() -> None:
    answers = iter(["abc", 2.5, 2.5])

    @nh.natural_function
    async def voter() -> float:
        """natural
        Look.
        """
        return next(answers)  # type: ignore[return-value]

    async with nh.run(passing()):
        assert await vote(voter, count=3)() == 2.5


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="counts references")
def test_a_check_does_not_keep_what_it_has_seen() -> None:
    class Big(list[int]):
        pass

    @nh.natural_function
    def give(value: Any) -> list[int]:
        """natural
        Look at <value>.
        """
        return value

    with nh.run(passing()):
        give(Big([1]))
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Big]


def test_a_valid_value_is_not_described() -> None:
    described: list[str] = []

    class Costly(list[int]):
        def __repr__(self) -> str:
            described.append("described")
            return "costly"

    @nh.natural_function
    def give(value: Any) -> list[int]:
        """natural
        Look at <value>.
        """
        return value

    with nh.run(passing()):
        give(Costly([1]))
        assert described == []
        with pytest.raises(nh.ExecutionError, match="costly"):
            give(Costly(["x"]))  # type: ignore[list-item]
