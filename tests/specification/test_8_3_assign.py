"""Section 8.3: `nh_assign`, its targets, its validation, and its atomicity."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

import anyio
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

import nighthawk_async as nh
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

CONSTANTS = {"rate": 3}


async def fetch(number: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return number


async def fail() -> int:
    await anyio.lowlevel.checkpoint()
    raise OSError("the line is down")


@dataclass
class Address:
    city: str = "Oslo"
    zip_code: int = 1


@dataclass
class Customer:
    name: str = "Ann"
    age: int = 30
    address: Address = field(default_factory=Address)
    tags: list[int] = field(default_factory=list[int])
    kind: ClassVar[str] = "person"
    number: Final[int] = 1


@dataclass(frozen=True)
class Stamp:
    text: str = "old"


class Settings(BaseModel):
    level: int = Field(default=1, ge=0)
    name: str = "base"


class Checked(BaseModel):
    model_config = ConfigDict(validate_assignment=True)

    low: int = 0
    high: int = 10

    @field_validator("low")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("low must be even")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> "Checked":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Plain:
    count: int
    unknown: "Nowhere"

    def __init__(self) -> None:
        self.count = 0
        self.free: object = None


class Typed:
    count: int = 0
    label: "str" = ""


class Guarded:
    def __init__(self) -> None:
        self._level = 1
        self.history: list[int] = []

    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, value: int) -> None:
        self._level = value
        if value > 5:
            raise RuntimeError("too much")

    @property
    def broken(self) -> object:
        raise LookupError("no such part")

    @property
    def fixed(self) -> int:
        return 1


class Closed:
    __slots__ = ("_open",)

    def __setattr__(self, name: str, value: object) -> None:
        raise PermissionError(f"{name} is closed")


@nh.natural_function
async def change(target: Any, other: Any = None) -> object:
    """natural
    Change <target> with <other>.
    """


@nh.natural_function
async def assign_all() -> tuple[int, list[int], object]:
    number: int = 0
    numbers: list[int] = []
    anything = None
    """natural
    Set <:number>, <:numbers> and <:anything>.
    """
    return number, numbers, anything


async def outcome_of(target: Any, *calls: nh.models.ToolCall, other: Any = None) -> list[Any]:
    steps = ScriptedSteps(calls, PASS)
    async with nh.run(steps.executor):
        await change(target, other)
    return list(steps.envelopes)


async def error_of(target: Any, call: nh.models.ToolCall, other: Any = None) -> dict[str, Any]:
    (envelope,) = await outcome_of(target, call, other=other)
    assert envelope["value"] is None
    return envelope["error"]


# ---- bare names


async def test_8_3_a_bare_name_is_assigned_in_the_step_locals() -> None:
    steps = ScriptedSteps((assigning("fresh", "other * 2"), returning("fresh")))
    async with nh.run(steps.executor):
        assert await change(None, 21) == 42


async def test_8_3_a_write_binding_is_coerced_to_its_type() -> None:
    steps = ScriptedSteps(
        (
            assigning("number", "'7'"),
            assigning("numbers", "('1', 2)"),
            assigning("anything", "{1}"),
            PASS,
        )
    )
    async with nh.run(steps.executor):
        assert await assign_all() == (7, [1, 2], {1})


async def test_8_3_a_value_of_the_wrong_type_changes_nothing_and_says_why() -> None:
    steps = ScriptedSteps(
        (assigning("number", "1"), assigning("number", "'many'")), evaluating("number"), PASS
    )
    async with nh.run(steps.executor):
        assert (await assign_all())[0] == 1
    refused = steps.envelopes[1]["error"]
    assert refused["kind"] == "invalid_input"
    assert refused["message"].startswith("write binding 'number' must be int: ")
    assert refused["guidance"] == "Pass a value of the expected type."
    assert steps.envelopes[2]["value"] == 1


async def test_8_3_an_assignment_answers_with_a_diagnostic_object() -> None:
    (envelope,) = await outcome_of(None, assigning("fresh", "[1, 2]"))
    assert envelope == {
        "value": {
            "succeeded": True,
            "target_path": "fresh",
            "type": "list",
            "value": [1, 2],
            "note": "not kept when the block ends: fresh; the block sets no variables",
        },
        "error": None,
    }


async def test_8_3_an_awaitable_is_awaited_before_it_is_assigned() -> None:
    steps = ScriptedSteps((assigning("number", "fetch('8')"), assigning("numbers", "await fetch([1])"), PASS))
    async with nh.run(steps.executor):
        assert (await assign_all())[:2] == (8, [1])


async def test_8_3_an_awaitable_of_the_wrong_type_changes_nothing() -> None:
    steps = ScriptedSteps(
        (assigning("number", "1"), assigning("number", "fetch('many')"), assigning("number", "fail()")),
        evaluating("number"),
        PASS,
    )
    async with nh.run(steps.executor):
        assert (await assign_all())[0] == 1
    assert [envelope["error"] and envelope["error"]["kind"] for envelope in steps.envelopes] == [
        None,
        "invalid_input",
        "execution",
        None,
    ]
    assert steps.envelopes[2]["error"]["message"] == "OSError: the line is down"


async def test_8_3_a_failing_expression_assigns_nothing() -> None:
    steps = ScriptedSteps(assigning("number", "1 / 0"), (assigning("number", "2"), PASS))
    async with nh.run(steps.executor):
        assert (await assign_all())[0] == 2
    assert steps.envelopes[0]["error"]["message"] == "ZeroDivisionError: division by zero"


# ---- the grammar of targets


@pytest.mark.parametrize(
    "target_path",
    ["", "a b", "a.", ".a", "a..b", "a[0]", "<a>", "a-b", "1a", "é", "a.é", " a", "a\n", "class", "a.def"],
)
async def test_8_3_a_target_outside_the_grammar_is_invalid_input(target_path: str) -> None:
    error = await error_of(None, assigning(target_path, "1"))
    assert error["kind"] == "invalid_input"
    assert repr(target_path) in error["message"]


@pytest.mark.parametrize("target_path", ["__x", "target.__class__", "target.__dict__.x"])
async def test_8_3_dunder_segments_are_reserved(target_path: str) -> None:
    target = Plain()
    error = await error_of(target, assigning(target_path, "int"))
    assert error["kind"] == "invalid_input"
    assert type(target) is Plain


# ---- dotted targets


async def test_8_3_a_field_of_a_dataclass_is_validated_and_assigned() -> None:
    customer = Customer()
    envelopes = await outcome_of(
        customer,
        assigning("target.age", "'31'"),
        assigning("target.address.city", "'Rome'"),
        assigning("target.tags", "('4',)"),
        assigning("target.address.zip_code", "'none'"),
        assigning("target.kind", "5"),
        assigning("target.number", "'9'"),
    )
    assert customer.age == 31
    assert customer.address == Address(city="Rome", zip_code=1)
    assert customer.tags == [4]
    assert customer.number == 9
    assert [envelope["error"] is None for envelope in envelopes] == [True, True, True, False, False, True]
    assert envelopes[0]["value"]["target_path"] == "target.age"
    assert envelopes[3]["error"]["message"].startswith("field 'target.address.zip_code' must be int")
    assert Customer.kind == "person"


async def test_8_3_a_field_of_a_pydantic_model_is_validated_with_its_constraints() -> None:
    settings = Settings()
    envelopes = await outcome_of(
        settings,
        assigning("target.level", "'3'"),
        assigning("target.level", "-1"),
        assigning("target.name", "1"),
    )
    assert settings == Settings(level=3)
    assert [envelope["error"] is None for envelope in envelopes] == [True, False, False]


async def test_8_3_a_pydantic_model_that_refuses_keeps_its_values() -> None:
    checked = Checked()
    envelopes = await outcome_of(
        checked, assigning("target.low", "3"), assigning("target.low", "20"), assigning("target.low", "4")
    )
    assert checked == Checked(low=4)
    assert [envelope["error"] and envelope["error"]["kind"] for envelope in envelopes] == [
        "invalid_input",
        "invalid_input",
        None,
    ]
    assert "low must be even" in envelopes[0]["error"]["message"]
    assert "low is above high" in envelopes[1]["error"]["message"]
    assert "errors.pydantic.dev" not in envelopes[1]["error"]["message"]


async def test_8_3_a_field_without_type_metadata_is_assigned_without_validation() -> None:
    plain, model = Plain(), Settings()
    await outcome_of(plain, assigning("target.free", "'x'"), assigning("target.count", "'text'"))
    assert (plain.free, plain.count) == ("x", "text")  # one annotation of the class cannot be resolved
    error = await error_of(model, assigning("target.absent", "1"))
    assert error["kind"] == "execution"


async def test_8_3_a_field_of_a_plain_class_is_validated_by_its_annotations() -> None:
    typed = Typed()
    envelopes = await outcome_of(
        typed,
        assigning("target.count", "'4'"),
        assigning("target.count", "'x'"),
        assigning("target.label", "1"),
    )
    assert (typed.count, typed.label) == (4, "")
    assert [envelope["error"] is None for envelope in envelopes] == [True, False, False]


async def test_8_3_a_setter_that_raises_leaves_the_object_as_it_was() -> None:
    guarded = Guarded()
    error = await error_of(guarded, assigning("target.level", "9"))
    assert error == {
        "kind": "execution",
        "message": "cannot assign 'target.level': RuntimeError: too much",
        "guidance": "Assign another value, or change the object by its methods.",
    }
    assert guarded.level == 1


@pytest.mark.parametrize(
    ("target", "path", "kind", "message"),
    [
        (Closed(), "target.open", "execution", "PermissionError: open is closed"),
        (Stamp(), "target.text", "execution", "FrozenInstanceError"),
        (Guarded(), "target.fixed", "execution", "AttributeError"),
        (Guarded(), "target.broken.part", "resolution", "LookupError: no such part"),
        (Guarded(), "target.absent.part", "resolution", "AttributeError"),
        (5, "target.real", "execution", "AttributeError"),
        (None, "nowhere.field", "resolution", "'nowhere' is not a local name"),
        (None, "CONSTANTS.rate", "resolution", "'CONSTANTS' is not a local name"),
    ],
)
async def test_8_3_an_object_that_cannot_be_assigned_to_is_told_to_the_model(
    target: Any, path: str, kind: str, message: str
) -> None:
    error = await error_of(target, assigning(path, "'new'"))
    assert error["kind"] == kind
    assert message in error["message"]


async def test_8_3_a_class_can_be_the_root_of_a_target() -> None:
    class Options:
        verbose = False

    await outcome_of(Options, assigning("target.verbose", "True"))
    assert Options.verbose


async def test_8_3_an_awaited_value_is_assigned_to_a_field() -> None:
    customer = Customer()
    await outcome_of(customer, assigning("target.age", "fetch('40')"), assigning("target.name", "fail()"))
    assert (customer.age, customer.name) == (40, "Ann")


# ---- commit and dirty roots


@nh.natural_function
async def rewrite_customer(customer: Customer) -> Customer:
    """natural
    Rewrite <:customer>.
    """
    return customer


async def test_8_3_a_dotted_assignment_marks_a_write_binding_as_dirty() -> None:
    commits: list[nh.oversight.StepCommit] = []

    class Watcher:
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
            return nh.oversight.Accept()

        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
            commits.append(commit)
            return nh.oversight.Accept()

    customer = Customer()
    steps = ScriptedSteps((assigning("customer.age", "50"), PASS), (assigning("target.age", "51"), PASS))
    async with nh.run(steps.executor), nh.scope(oversight=Watcher()):
        assert await rewrite_customer(customer) is customer
        await change(customer)
    assert [dict(commit.bindings) for commit in commits] == [{"customer": customer}, {}]
    assert customer.age == 51


@nh.natural_function
async def rewrite_checked(
    amounts: Annotated[list[int], AfterValidator(lambda items: [int(i) for i in items])],
) -> object:
    """natural
    Change <:amounts>.
    """
    return amounts


async def test_8_3_final_validation_is_applied_to_committed_write_bindings_alone() -> None:
    untouched: Any = ["1", "2"]
    steps = ScriptedSteps((executing("amounts.append('3')"), PASS), (assigning("amounts", "amounts"), PASS))
    async with nh.run(steps.executor):
        assert await rewrite_checked(untouched) is untouched
        assert await rewrite_checked(untouched) == [1, 2, 3]
    assert untouched == ["1", "2", "3"]


async def test_8_3_a_validator_that_raises_anything_is_a_refusal() -> None:
    def explode(value: object) -> object:
        raise KeyError("validator")

    @nh.natural_function
    async def assign_exploding() -> object:
        result: Annotated[int, AfterValidator(explode)] = 0
        """natural
        Set <:result>.
        """
        return result

    steps = ScriptedSteps(assigning("result", "'1'"), PASS)
    async with nh.run(steps.executor):
        assert await assign_exploding() == 0
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"
    assert "KeyError" in steps.envelopes[0]["error"]["message"]
