"""The direct outcome transport: at once, and piecemeal for small models."""

import datetime
import json
import re
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias

import pytest
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]

SMALL = nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False)
LARGE = nh.models.ModelCapabilities(default_transport="direct", tools=False)


class OwnError(Exception):
    """Named by a block."""


@nh.natural_function
async def review(text: str) -> tuple[str, int]:
    label: Literal["good", "bad"]
    stars: int
    """natural
    Set <:label> and <:stars> for <text>.
    """
    return label, stars


@nh.natural_function
async def classify(text: str) -> str:
    label: Literal["good", "bad"]
    """natural
    Set <:label> for <text>.
    """
    return label


@nh.natural_function
async def answer(question: str) -> int:
    """natural
    Return the answer to <question>.
    """
    raise AssertionError("the block returns")


@nh.natural_function
async def loop_over(words: list[str]) -> int:
    count = 0
    for word in words:
        """natural
        ---
        deny: [pass, return]
        ---
        Stop at a fruit <word>, raise OwnError when it is none.
        """
        count += len(word)
    return count


def direct(
    *texts: object, capabilities: nh.models.ModelCapabilities = LARGE, **configuration: Any
) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    answers = [model_response(text=text if isinstance(text, str) else json.dumps(text)) for text in texts]
    model = ScriptedModel(answers, capabilities=capabilities)
    settings = nh.StepExecutorConfiguration(**configuration)
    return model, nh.AgentStepExecutor.from_model(model=model, configuration=settings)


PASS = {"kind": "pass"}


def passing(**bindings: object) -> dict[str, object]:
    return {"result": {"kind": "pass", "bindings": bindings}}


# ---- at once


async def test_an_ordinary_model_answers_with_all_values_and_the_outcome_at_once() -> None:
    model, executor = direct({"result": {"kind": "pass", "bindings": {"label": "good", "stars": "5"}}})
    async with nh.run(executor):
        assert await review("fine") == ("good", 5)
    (request,) = model.requests
    assert request.tools == ()
    assert request.response_format is not None
    passing = request.response_format.schema["properties"]["result"]["anyOf"][0]["properties"]
    assert passing["kind"]["enum"] == ["pass"]
    assert passing["bindings"]["properties"]["label"]["enum"] == ["good", "bad"]
    assert passing["bindings"]["properties"]["stars"]["type"] == "integer"
    assert passing["bindings"]["required"] == ["label", "stars"]
    assert "<<<NH:LOCALS>>>" in str(request.messages[0])
    assert '- label: Literal["good", "bad"]\n- stars: int' in request.system_prompt
    assert "nh_" not in request.system_prompt
    assert "\n\n\n" not in request.system_prompt


async def test_the_return_value_travels_as_json_typed_by_its_schema() -> None:
    model, executor = direct({"result": {"kind": "return", "return_value": 42}})
    async with nh.run(executor):
        assert await answer("the question") == 42
    assert model.requests[0].response_format is not None
    variants = model.requests[0].response_format.schema["properties"]["result"]["anyOf"]
    (returning,) = [variant for variant in variants if variant["properties"]["kind"]["enum"] == ["return"]]
    assert returning["properties"]["return_value"]["type"] == "integer"
    assert returning["required"] == ["kind", "return_value"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("not json", "not JSON"),
        ([], "not a JSON object"),
        ({}, "outcome kind None is not allowed"),
        ({"result": "pass"}, "outcome kind None is not allowed"),
        (passing(label="fair", stars=5), "bindings.label must be"),
        (passing(label="good"), "'stars' has no value"),
        (passing(other=1), "bindings.other: the block has no such variable to set; it has: label, stars"),
        ({"result": {"kind": "pass", "bindings": []}}, "'bindings' must be an object, not list"),
        ({"result": {"kind": "break"}}, "'break' is not allowed"),
        ({"result": {"kind": "return"}}, "needs the field 'return_value'"),
        ({"result": {"kind": "return", "return_value": [1]}}, "return_value must be"),
        ({"result": {"kind": "return", "return_expression": "1"}}, "in the field 'return_value'"),
        ({"result": {"kind": "return", "return_value": float("nan")}}, "not JSON"),
        ('{"bindings": "\ud800"}', "not JSON"),
    ],
)
async def test_an_unacceptable_answer_is_told_why_and_may_be_mended(wrong: object, why: str) -> None:
    right = passing(label="bad", stars=1)
    model, executor = direct(wrong, right)
    async with nh.run(executor) as run:
        assert await review("fine") == ("bad", 1)
    said, refusal = model.requests[1].messages[1:]
    assert isinstance(said, nh.models.AssistantMessage)
    assert isinstance(refusal, nh.models.UserMessage)
    assert why in str(refusal.content[0])
    assert run.usage_meter.usage.requests == 2

    _, executor = direct(wrong, right, max_corrective_turns=0)
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError, match=r"after 0 corrections.*the model said") as caught:
            await review("fine")
    assert why in str(caught.value)


async def test_an_answer_that_was_cut_off_is_refused_as_that_and_quoted_as_it_was() -> None:
    model = ScriptedModel(
        [model_response(text='{"bindings": {"la', finish_reason="length") for _ in range(2)],
        capabilities=LARGE,
    )
    configuration = nh.StepExecutorConfiguration(max_corrective_turns=1)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor):
        with pytest.raises(
            nh.ExecutionError,
            match=r'cut off at its length limit; be brief; the model said: {"bindings": {"la$',
        ):
            await review("fine")
    said, refusal = model.requests[1].messages[1:]
    assert said == nh.models.AssistantMessage(text='{"bindings": {"la')
    assert "cut off at its length limit" in str(refusal)


async def test_what_the_content_filter_withheld_is_asked_for_once() -> None:
    answer = model_response(text="I cannot", finish_reason="content_filter")
    model = ScriptedModel([answer], capabilities=LARGE)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with pytest.raises(nh.ExecutionError, match="content filter withheld the answer: I cannot"):
            await review("fine")
    assert len(model.requests) == 1


class Street(BaseModel):
    name: str


class Address(BaseModel):
    street: Street


class Tree(BaseModel):
    branches: "list[Tree]" = []


def other_address() -> type[BaseModel]:
    class Address(BaseModel):
        city: str

    return Address


ElsewhereAddress = other_address()


@nh.natural_function
async def locate(text: str) -> list[Tree] | list[Any]:
    home: Address
    work: ElsewhereAddress  # type: ignore[valid-type]
    """natural
    Find <:home> and <:work> in <text>, or return trees.
    """
    return [home, work]  # type: ignore[list-item]


@pytest.mark.parametrize("capabilities", [SMALL, LARGE], ids=["small", "large"])
async def test_references_in_schemas_lead_to_definitions_at_the_root(
    capabilities: nh.models.ModelCapabilities,
) -> None:
    answers: dict[str, object] = {
        "step": passing(home={"street": {"name": "Elm"}}, work={"city": "Rome"}),
        "home": {"home": {"street": {"name": "Elm"}}},
        "work": {"work": {"city": "Rome"}},
    }

    def respond(request: nh.models.ModelRequest) -> ModelResponse:
        assert request.response_format is not None
        return model_response(text=json.dumps(answers[request.response_format.name]))

    model = ScriptedModel(respond, capabilities=capabilities)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        home, work = await locate("Elm Street, or Rome")
    assert (home.street.name, work.city) == ("Elm", "Rome")  # type: ignore[attr-defined]
    for request in model.requests:
        assert request.response_format is not None
        schema = request.response_format.schema
        references = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(schema))
        assert references
        for reference in references:
            place, name = reference.split("/")
            assert name in schema[place]
        assert json.dumps(schema).count('"$defs"') == 1


async def test_a_type_without_a_schema_is_an_error_that_names_the_way_out() -> None:
    @nh.natural_function
    async def make() -> object:
        thing: OwnError
        """natural
        Set <:thing>.
        """
        return thing

    _, executor = direct()
    async with nh.run(executor):
        with pytest.raises(
            nh.ExecutionError, match=r"'thing' has the type OwnError.*outcome_transport='tool'"
        ):
            await make()


async def test_a_model_error_arrives_bare_and_is_counted() -> None:
    model = ScriptedModel([nh.errors.ModelTimeoutError("silent")], capabilities=LARGE)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)) as run:
        with pytest.raises(nh.errors.ModelTimeoutError, match="silent"):
            await review("fine")
    assert run.usage_meter.usage == nh.Usage(requests=1, is_complete=False)


# ---- piecemeal


async def test_a_small_model_is_asked_for_one_binding_at_a_time_and_never_for_the_outcome_pass() -> None:
    model, executor = direct({"label": "good"}, {"stars": 4}, capabilities=SMALL)
    async with nh.run(executor):
        assert await review("fine") == ("good", 4)
    first, second = model.requests
    assert first.system_prompt == "Set <:label> and <:stars> for <text>."
    assert "fine" in str(first.messages[0])
    assert "NH:PROGRAM" not in str(first.messages[0])
    assert str(first.messages[0].content[-1]).endswith("label?")  # type: ignore[union-attr]
    assert str(second.messages[0].content[-1]).endswith("stars?")  # type: ignore[union-attr]
    assert first.response_format is not None
    assert list(first.response_format.schema["properties"]) == ["label"]


class Tone(Enum):
    """Of a text."""

    KIND = "kind"
    CROSS = "cross"


Stars: TypeAlias = Annotated[int, Field(ge=1, le=5)]


@nh.natural_function
async def rate(text: str) -> tuple[object, ...]:
    stars: Stars
    share: float
    is_long: bool
    tone: Tone
    title: str
    """natural
    Set <:stars>, <:share>, <:is_long>, <:tone> and <:title> for <text>.
    """
    return stars, share, is_long, tone, title


@nh.natural_function
async def sort_out(text: str) -> tuple[object, ...]:
    tone: Tone
    label: Literal["good", "bad"]
    stars: int | None
    title: str
    words: list[str]
    count: int
    """natural
    Set <:tone>, <:label>, <:stars>, <:title>, <:words> and <:count> for <text>.
    """
    return tone, label, stars, title, words, count


async def test_a_small_model_is_asked_for_flags_numbers_and_texts_together_and_for_choices_behind_them() -> (
    None
):
    model, executor = direct(
        {"stars": 4, "share": 1, "is_long": False, "tone": "kind"}, {"title": "你好 🎂"}, capabilities=SMALL
    )
    async with nh.run(executor) as run:
        assert await rate("مرحبا") == (4, 1.0, False, Tone.KIND, "你好 🎂")
    first, second = model.requests
    assert first.response_format is not None
    schema = first.response_format.schema
    assert list(schema["properties"]) == schema["required"] == ["stars", "share", "is_long", "tone"]
    assert schema["additionalProperties"] is False
    assert str(first.messages[0].content[-1]).endswith('"مرحبا"')  # type: ignore[union-attr]
    assert str(second.messages[0].content[-1]).endswith("title?")  # type: ignore[union-attr]
    assert run.usage_meter.usage.requests == 2


async def test_choices_that_come_first_and_other_types_are_asked_for_one_by_one() -> None:
    model, executor = direct(
        {"tone": "cross"},
        {"label": "bad"},
        {"stars": None},
        {"title": "No"},
        {"words": ["never"]},
        {"count": 1},
        capabilities=SMALL,
    )
    async with nh.run(executor):
        assert await sort_out("no") == (Tone.CROSS, "bad", None, "No", ["never"], 1)
    formats = [request.response_format for request in model.requests]
    asked = [list(each.schema["properties"]) for each in formats if each is not None]
    assert asked == [["tone"], ["label"], ["stars"], ["title"], ["words"], ["count"]]


async def test_a_bad_value_among_several_is_named_and_all_are_asked_for_again() -> None:
    good = {"stars": 5, "share": 0.5, "is_long": True, "tone": "kind"}
    model, executor = direct({**good, "stars": 6}, {"stars": 5}, good, {"title": "Yes"}, capabilities=SMALL)
    async with nh.run(executor):
        assert await rate("yes") == (5, 0.5, True, Tone.KIND, "Yes")
    assert "write binding 'stars'" in str(model.requests[1].messages[-1])
    assert "has no field 'share'" in str(model.requests[2].messages[-1])


async def test_a_single_binding_is_asked_for_with_the_variables_alone() -> None:
    model, executor = direct({"label": "bad"}, capabilities=SMALL)
    async with nh.run(executor):
        assert await classify("awful") == "bad"
    (message,) = model.requests[0].messages
    assert isinstance(message, nh.models.UserMessage)
    assert message.content == ('text: str = "awful"',)


async def test_a_small_models_unacceptable_value_is_told_why() -> None:
    model, executor = direct({"name": "bad"}, {"label": "so-so"}, {"label": "bad"}, capabilities=SMALL)
    async with nh.run(executor):
        assert await classify("awful") == "bad"
    assert "has no field 'label'" in str(model.requests[1].messages[-1])
    assert "write binding 'label'" in str(model.requests[2].messages[-1]).replace("\\", "")


async def test_a_small_model_without_bindings_chooses_among_all_outcomes() -> None:
    model, executor = direct({"outcome": {"kind": "return", "return_value": 42}}, capabilities=SMALL)
    async with nh.run(executor):
        assert await answer("the question") == 42
    assert model.requests[0].response_format is not None
    variants = model.requests[0].response_format.schema["properties"]["outcome"]["anyOf"]
    kinds = [variant["properties"]["kind"]["enum"] for variant in variants]
    assert kinds == [["pass"], ["return"], ["raise"]]


async def test_a_small_model_chooses_among_the_outcomes_that_are_left() -> None:
    model, executor = direct(
        {"outcome": {"kind": "continue"}},
        {"outcome": {"kind": "raise", "raise_message": "no fruit", "raise_error_type": "OwnError"}},
        capabilities=SMALL,
    )
    async with nh.run(executor):
        with pytest.raises(OwnError, match="no fruit"):
            await loop_over(["pear", "stone"])
    assert model.requests[0].response_format is not None
    variants = model.requests[0].response_format.schema["properties"]["outcome"]["anyOf"]
    assert [variant["properties"]["kind"]["enum"] for variant in variants] == [
        ["break"],
        ["continue"],
        ["raise"],
    ]


async def test_a_block_that_can_only_pass_asks_nothing() -> None:
    @nh.natural_function
    async def nothing() -> None:
        """natural
        ---
        deny: [return, raise]
        ---
        Nothing to do.
        """

    model, executor = direct(capabilities=SMALL)
    async with nh.run(executor):
        await nothing()
    assert model.requests == []


async def test_fragments_reach_a_small_model_too() -> None:
    model, executor = direct({"label": "bad"}, capabilities=SMALL)
    async with nh.run(executor):
        with nh.scope(system_prompt_suffix_fragments=["Be kind."], user_prompt_suffix_fragments=["Now."]):
            await classify("awful")
    assert model.requests[0].system_prompt.endswith("\n\nBe kind.")
    assert str(model.requests[0].messages[0].content[-1]).endswith("\n\nNow.")  # type: ignore[union-attr]


async def test_a_binding_without_a_known_type_takes_any_json() -> None:
    @nh.natural_function
    async def note(text: str) -> object:
        anything: object
        """natural
        Set <:anything> for <text>.
        """
        return anything

    model, executor = direct({"anything": [1, None]}, capabilities=SMALL)
    async with nh.run(executor):
        assert await note("x") == [1, None]
    assert model.requests[0].response_format is not None
    assert model.requests[0].response_format.schema["properties"] == {"anything": {}}


async def test_a_strict_model_is_given_its_dates_as_text() -> None:
    class Day(BaseModel, strict=True):
        date: datetime.date

    @nh.natural_function
    async def date_of(text: str) -> Day:
        day: Day
        """natural
        Set <:day> to the day of <text>.
        """
        return day

    _, executor = direct({"day": {"date": "2026-11-23"}}, capabilities=SMALL)
    async with nh.run(executor):
        assert await date_of("today") == Day(date=datetime.date(2026, 11, 23))


LIMIT = 5


def helper(text: str) -> int:
    return len(text)


@nh.natural_function
async def judge(text: str) -> str:
    """natural
    Set <:label> for <text> against <LIMIT>, as <helper> would.
    """
    label: str
    return label


async def test_a_small_model_sees_the_global_values_that_the_program_reads_but_no_functions() -> None:
    model, executor = direct({"label": "short"}, capabilities=SMALL)
    async with nh.run(executor):
        await judge("spam")
    (message,) = model.requests[0].messages
    assert isinstance(message, nh.models.UserMessage)
    assert message.content == ('text: str = "spam"\nLIMIT: int = 5',)


async def test_a_small_model_gets_media_in_their_place_and_reasoning_is_passed_over() -> None:
    photo = nh.ImageUrl(url="http://127.0.0.1/cat.png")

    @nh.natural_function
    async def describe(photo: nh.ImageUrl) -> str:
        """natural
        Set <:label> for <photo>.
        """
        label: str
        return label

    events = model_response(text='{"label": "cat"}').events
    answer = ModelResponse(events=(nh.models.ReasoningDelta(text="hm"), *events))
    model = ScriptedModel([answer], capabilities=SMALL)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await describe(photo) == "cat"
    (message,) = model.requests[0].messages
    assert isinstance(message, nh.models.UserMessage)
    assert photo in message.content
