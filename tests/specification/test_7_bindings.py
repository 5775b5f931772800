"""Section 7: how names resolve, and which types write bindings have."""

# ruff: noqa: F841, F842, UP037 - natural blocks use variables that ruff cannot see

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, return_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning

pytestmark = pytest.mark.anyio

LIMIT = 10


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class Item:
    name: str


class Model(BaseModel):
    size: int


async def types_of(function: Any, *arguments: Any, **bindings: Any) -> dict[str, object]:
    executor = ScriptedExecutor([pass_response(**bindings)])
    async with nh.run(executor):
        await function(*arguments)
    return dict(executor.calls[0].binding_types)


# ---- resolution


async def test_7_a_missing_name_raises_name_error_before_the_executor_is_asked() -> None:
    @nh.natural_function
    async def reading() -> None:
        """natural
        Read <missing_name>.
        """

    executor = ScriptedExecutor()
    async with nh.run(executor):
        with pytest.raises(NameError, match="name 'missing_name' is not defined") as caught:
            await reading()
    assert caught.value.name == "missing_name"
    assert not isinstance(caught.value, UnboundLocalError)
    assert __file__ in caught.value.__notes__[0]
    assert executor.calls == []


async def test_7_a_local_variable_without_a_value_raises_unbound_local_error() -> None:
    @nh.natural_function
    async def reading() -> None:
        """natural
        Read <later>.
        """
        later = 1
        del later

    async with nh.run(ScriptedExecutor()):
        with pytest.raises(UnboundLocalError, match="local variable 'later'"):
            await reading()


async def test_7_a_free_variable_without_a_value_raises_name_error() -> None:
    @nh.natural_function
    async def enclosing() -> None:
        @nh.natural_function
        async def inner() -> object:
            """natural
            Read <later>.
            """
            return later

        await inner()
        later = 1
        """natural
        Never reached.
        """

    async with nh.run(ScriptedExecutor()):
        with pytest.raises(NameError, match="free variable 'later'"):
            await enclosing()


async def test_7_locals_hide_globals_and_globals_hide_builtins() -> None:
    @nh.natural_function
    async def reading(LIMIT: int) -> object:  # noqa: N803
        """natural
        Read <LIMIT> and <int>.
        """

    async with nh.run(ScriptedExecutor([return_response("(LIMIT, int('3'))")])):
        assert await reading(1) == (1, 3)


async def test_7_a_write_binding_needs_no_declaration() -> None:
    @nh.natural_function
    async def writing() -> object:
        """natural
        Set <:fresh>.
        """
        return fresh

    async with nh.run(ScriptedExecutor([pass_response(fresh=1)])):
        assert await writing() == 1


async def test_7_reading_what_was_never_assigned_raises_in_python() -> None:
    @nh.natural_function
    async def writing() -> object:
        if LIMIT > 100:
            """natural
            Set <:fresh>.
            """
        return fresh

    @nh.natural_function
    async def breaking() -> object:
        while True:
            """natural
            Set <:fresh>.
            """
            break
        return fresh

    from nighthawk_async.testing import break_response

    async with nh.run(ScriptedExecutor([break_response()])):
        with pytest.raises(UnboundLocalError):
            await writing()
        with pytest.raises(UnboundLocalError):
            await breaking()


async def test_7_a_name_may_be_read_and_written() -> None:
    @nh.natural_function
    async def doubling(number: int) -> int:
        """natural
        Double <number> into <:number>.
        """
        return number

    steps = ScriptedSteps((assigning("number", "number * 2"), PASS))
    async with nh.run(steps.executor):
        assert await doubling(4) == 8


# ---- types


@nh.natural_function
async def annotated(parameter: float, other: "list[int]") -> None:
    number: int
    text: str | None
    items: list[Item]
    mood: Mood
    choice: Literal["a", "b"]
    bounded: Annotated[int, Field(ge=0)]
    quoted: "dict[str, Item]"
    inner: list["Item"]
    """natural
    Set <:number>, <:text>, <:items>, <:mood>, <:choice>, <:bounded>, <:quoted>, <:inner>, <:parameter>,
    <:other> and <:nothing>.
    """


GOOD = {
    "number": "1",
    "text": None,
    "items": [{"name": "x"}],
    "mood": "good",
    "choice": "a",
    "bounded": 0,
    "quoted": {"k": {"name": "y"}},
    "inner": [Item("z")],
    "parameter": 2,
    "other": ("3",),
    "nothing": object,
}


async def test_7_types_of_write_bindings_come_from_the_annotations() -> None:
    types = await types_of(annotated, 1.0, [], **GOOD)
    assert str(types.pop("bounded")).startswith("typing.Annotated[int, FieldInfo(")
    assert types == {
        "number": int,
        "text": str | None,
        "items": list[Item],
        "mood": Mood,
        "choice": Literal["a", "b"],
        "quoted": dict[str, Item],
        "inner": list[Item],
        "parameter": float,
        "other": list[int],
        "nothing": object,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", "x"),
        ("text", 1),
        ("items", [{"title": "x"}]),
        ("mood", "neutral"),
        ("choice", "c"),
        ("bounded", -1),
        ("quoted", {"k": 1}),
        ("inner", [1]),
        ("parameter", "x"),
        ("other", ["x"]),
    ],
)
async def test_7_a_value_of_another_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(nh.ExecutionError, match=f"'{name}' must be"):
        await types_of(annotated, 1.0, [], **{**GOOD, name: value})


async def test_7_without_an_annotation_the_type_is_that_of_the_initial_value() -> None:
    @nh.natural_function
    async def inferring() -> None:
        text, count, flag, ratio, items, item, model, mood = (
            "",
            0,
            False,
            1.5,
            [],
            Item("x"),
            Model(size=1),
            Mood.BAD,
        )
        nothing, anything = None, object()
        """natural
        Set <:text>, <:count>, <:flag>, <:ratio>, <:items>, <:item>, <:model>, <:mood>, <:nothing>,
        <:anything> and <:fresh>.
        """

    assert await types_of(inferring, fresh=1) == {
        "text": str,
        "count": int,
        "flag": bool,
        "ratio": float,
        "items": list,
        "item": Item,
        "model": Model,
        "mood": Mood,
        "nothing": object,
        "anything": object,
        "fresh": object,
    }


async def test_7_an_inferred_type_lets_the_model_correct_itself() -> None:
    @nh.natural_function
    async def inferring() -> object:
        result = ""
        """natural
        Set <:result>.
        """
        return result

    steps = ScriptedSteps(assigning("result", "42"), (assigning("result", "'42'"), PASS))
    async with nh.run(steps.executor):
        assert await inferring() == "42"
    assert "'result' must be str" in steps.envelopes[0]["error"]["message"]


async def test_7_the_first_annotation_counts_wherever_it_stands() -> None:
    @nh.natural_function
    async def late() -> int:
        """natural
        Set <:number>.
        """
        number: int
        return number

    assert await types_of(late, number=1) == {"number": int}


async def test_7_an_inferred_type_follows_the_value_at_the_moment() -> None:
    @nh.natural_function
    async def again() -> object:
        value: object = 1
        """natural
        Set <:value>.
        """
        """natural
        Set <:value> again.
        """
        return value

    executor = ScriptedExecutor([pass_response(value="text"), pass_response(value=2)])
    async with nh.run(executor):
        # An annotation `object` is what a missing one stands for: the type of the value counts.
        with pytest.raises(nh.ExecutionError, match="'value' must be int"):
            await again()


async def test_7_types_of_enclosing_functions_resolve() -> None:
    class Local(BaseModel):
        size: int

    @nh.natural_function
    async def writing(parameter: "Local | None" = None) -> "list[Local]":
        local: Local
        nested: list["Local"]
        """natural
        Set <:local>, <:nested>, <:parameter>, or return them.
        """
        return [local]

    values: Any = {"local": {"size": 1}, "nested": [{"size": 2}], "parameter": {"size": "3"}}
    assert await types_of(writing, **values) == {
        "local": Local,
        "nested": list[Local],
        "parameter": Local | None,
    }
    async with nh.run(ScriptedExecutor([return_response("[{'size': 4}]")])):
        assert await writing() == [Local(size=4)]


async def test_7_types_defined_inside_the_function_resolve() -> None:
    @nh.natural_function
    async def writing() -> object:
        @dataclass
        class Inside:
            size: int

        inside: Inside
        """natural
        Set <:inside>.
        """
        return inside.size

    steps = ScriptedSteps((assigning("inside", "Inside(3)"), PASS))
    async with nh.run(steps.executor):
        assert await writing() == 3


async def test_7_an_annotation_in_the_signature_does_not_mean_the_parameter_of_that_name() -> None:
    @nh.natural_function
    async def naming(Item: "Item", int: "int") -> "list[Item]":  # noqa: N803
        """natural
        Set <:Item> and <:int>, or return.
        """
        return [Item]

    assert await types_of(naming, {"name": "x"}, 1) == {"Item": Item, "int": int}
    async with nh.run(ScriptedExecutor([return_response("[{'name': 'y'}]")])):
        assert await naming({"name": "x"}, 1) == [Item("y")]


async def test_7_an_annotation_that_cannot_be_resolved_names_its_binding() -> None:
    @nh.natural_function
    async def lost() -> None:
        value: "Nowhere"  # type: ignore[name-defined]
        """natural
        Set <:value>.
        """

    with pytest.raises(nh.errors.AnnotationError, match=r"annotation of write binding 'value'.*Nowhere"):
        await types_of(lost, value=1)


async def test_7_a_return_annotation_that_cannot_be_resolved_matters_where_the_block_may_return() -> None:
    @nh.natural_function
    async def lost(value: int) -> "Nowhere":  # type: ignore[name-defined]
        """natural
        Set <:value> or return.
        """
        return value

    async with nh.run(ScriptedExecutor([])):
        with pytest.raises(nh.errors.AnnotationError, match=r"annotation of the return value.*Nowhere"):
            await lost(1)


async def test_7_an_annotation_that_no_value_can_be_checked_against_is_reported() -> None:
    @nh.natural_function
    async def odd() -> None:
        @dataclass
        class Unfinished:
            part: "Nowhere"  # type: ignore[name-defined]

        value: Unfinished
        """natural
        Set <:value>.
        """

    with pytest.raises(nh.errors.AnnotationError, match=r"'value' has the type .*Unfinished, which cannot"):
        await types_of(odd, value=1)


async def test_7_a_binding_named_return_has_no_type_of_the_function() -> None:
    with pytest.raises(nh.NaturalParseError, match="keyword"):

        @nh.natural_function
        async def odd() -> int:
            """natural
            Set <:return>.
            """
            return 1


async def test_7_bindings_are_simple_names_while_targets_may_be_dotted() -> None:
    with pytest.raises(nh.NaturalParseError, match="dotted path"):

        @nh.natural_function
        async def odd(item: Item) -> None:
            """natural
            Set <:item.name>.
            """

    @nh.natural_function
    async def renaming(item: Item) -> Item:
        """natural
        Rename <:item>.
        """
        return item

    steps = ScriptedSteps((assigning("item.name", "'new'"), PASS))
    async with nh.run(steps.executor):
        assert await renaming(Item("old")) == Item("new")


@nh.natural_function
async def collect(*numbers: int, **options: "str") -> object:
    """natural
    Set <:numbers> and <:options>.
    """
    return numbers, options


async def test_7_the_annotations_of_variadic_parameters_are_those_of_their_items() -> None:
    executor = ScriptedExecutor(
        [pass_response(numbers=["1", 2], options={"a": "b"}), pass_response(numbers=3)]
    )
    async with nh.run(executor):
        assert await collect(1, a="x") == ((1, 2), {"a": "b"})
        with pytest.raises(nh.ExecutionError, match="write binding 'numbers' must be tuple"):
            await collect(1)
