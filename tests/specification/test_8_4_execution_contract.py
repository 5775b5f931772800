"""Specification 8.4: the final JSON and what each outcome does."""

import json
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    break_response,
    continue_response,
    model_response,
    pass_response,
    raise_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio


class QuotaError(Exception):
    """An error that blocks may raise."""


@nh.natural_function
async def label(text: str) -> str:
    result = "none"
    """natural
    Set <:result> to a label of <text>; raise <QuotaError> when there is no quota.
    """
    return result


@nh.natural_function
async def count_until(limit: int) -> list[int]:
    seen: list[int] = []
    for number in range(limit):
        """natural
        Skip odd <number>, stop at 4.
        """
        seen.append(number)
    return seen


@nh.natural_function
async def deny_pass_and_raise(text: str) -> str:
    """natural
    ---
    deny: [pass, raise]
    ---
    Return a label of <text>.
    """
    raise AssertionError("the block returns")


def answering(*texts: str, transport: str = "native", **configuration: Any) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(
        model=ScriptedModel([model_response(text=text) for text in texts]),
        configuration=nh.StepExecutorConfiguration(outcome_transport=transport, **configuration),  # type: ignore[arg-type]
    )


async def run_label(executor: Any) -> str:
    async with nh.run(executor):
        return await label("text")


# ---- outcome kinds


async def test_8_4_pass_is_success_with_no_control_flow_change() -> None:
    assert await run_label(ScriptedExecutor([pass_response(result="good")])) == "good"
    assert await run_label(ScriptedExecutor([pass_response()])) == "none"


async def test_8_4_return_returns_from_the_surrounding_function_immediately() -> None:
    assert await run_label(ScriptedExecutor([return_response("text + '!'", result="unused")])) == "text!"


async def test_8_4_return_expression_is_evaluated_against_step_globals_and_step_locals() -> None:
    expression = "str([QuotaError.__name__, text, len(text)])"
    assert await run_label(ScriptedExecutor([return_response(expression)])) == "['QuotaError', 'text', 4]"


async def test_8_4_the_return_value_is_validated_and_coerced_to_the_return_annotation() -> None:
    @nh.natural_function
    async def number() -> float:
        """natural
        Return a number.
        """

    async with nh.run(ScriptedExecutor([return_response("3"), return_response("'many'")])):
        value = await number()
        assert value == 3.0
        assert type(value) is float
        with pytest.raises(nh.ExecutionError, match="the return value must be float"):
            await number()


async def test_8_4_break_and_continue_control_the_surrounding_loop() -> None:
    script = [pass_response(), continue_response(), pass_response(), continue_response(), break_response()]
    executor = ScriptedExecutor(script)
    async with nh.run(executor):
        assert await count_until(10) == [0, 2]
    assert executor.remaining_responses == 0


@pytest.mark.parametrize("response", [break_response(), continue_response()])
async def test_8_4_break_and_continue_outside_a_loop_fail(response: Any) -> None:
    with pytest.raises(nh.ExecutionError, match=f"'{response.outcome.kind}' is not allowed"):
        await run_label(ScriptedExecutor([response]))


async def test_8_4_raise_with_an_error_type_raises_it_with_the_message() -> None:
    with pytest.raises(QuotaError, match="no quota") as caught:
        await run_label(ScriptedExecutor([raise_response("no quota", "QuotaError")]))
    assert caught.value.args == ("no quota",)


async def test_8_4_raise_without_an_error_type_raises_execution_error() -> None:
    with pytest.raises(nh.ExecutionError, match=r"^gave up$"):
        await run_label(ScriptedExecutor([raise_response("gave up")]))


async def test_8_4_an_error_type_that_is_not_listed_is_refused() -> None:
    with pytest.raises(nh.ExecutionError, match=r"'ValueError' is not allowed.*QuotaError.*the message"):
        await run_label(ScriptedExecutor([raise_response("the message", "ValueError")]))


async def test_8_4_the_schema_is_an_enum_over_the_allowed_error_types_and_kinds() -> None:
    model = ScriptedModel([model_response(tool_call("nh_outcome", kind="pass"))])
    await run_label(nh.AgentStepExecutor.from_model(model=model))
    (request,) = model.requests
    (outcome_tool,) = [tool for tool in request.tools if tool.name == "nh_outcome"]
    properties = outcome_tool.parameters["properties"]
    assert properties["raise_error_type"]["enum"] == ["QuotaError"]
    assert properties["kind"]["enum"] == ["pass", "return", "raise"]
    assert "QuotaError" in request.system_prompt


async def test_8_4_without_error_types_the_schema_has_no_such_field() -> None:
    model = ScriptedModel([model_response(tool_call("nh_outcome", kind="return", return_expression="''"))])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await deny_pass_and_raise("text") == ""
    (outcome_tool,) = [tool for tool in model.requests[0].tools if tool.name == "nh_outcome"]
    assert set(outcome_tool.parameters["properties"]) == {"kind", "return_value", "return_expression"}
    assert outcome_tool.parameters["properties"]["kind"]["enum"] == ["return"]


# ---- strict parsing


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"kind": "pass"}, "none"),
        ({"kind": "return", "return_expression": "text"}, "text"),
        ({"kind": "return", "return_expression": "text", "raise_message": None}, "text"),
    ],
)
async def test_8_4_the_outcome_may_be_flat_or_wrapped(
    outcome: dict[str, Any], expected: str, wrap: bool
) -> None:
    text = json.dumps({"result": outcome} if wrap else outcome)
    assert await run_label(answering(text)) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("I think it went well.", "not JSON"),
        ("", "not JSON"),
        ('["pass"]', "not a JSON object but list"),
        ("{}", "kind None"),
        ('{"kind": ["pass"]}', r"kind \['pass'\]"),
        ('{"kind": "finish"}', "kind 'finish' is not allowed here; allowed: pass, return, raise"),
        ('{"kind": "break"}', "kind 'break'"),
        ('{"kind": "pass", "reason": "done"}', "kind 'pass' has no field 'reason'"),
        ('{"kind": "return"}', "kind 'return' needs the field 'return_expression'"),
        ('{"kind": "return", "return_expression": 3}', "'return_expression' must be a string, not int"),
        ('{"kind": "raise"}', "kind 'raise' needs the field 'raise_message'"),
        (
            '{"kind": "raise", "raise_message": "m", "raise_error_type": "OSError"}',
            "'OSError' is not allowed",
        ),
        ("[" * 100_000, "not JSON"),
    ],
)
async def test_8_4_any_other_final_response_is_an_error_that_quotes_the_model(text: str, named: str) -> None:
    with pytest.raises(nh.ExecutionError, match=f"(?s){named}.*the model said: ") as caught:
        await run_label(answering(text, max_corrective_turns=0, answers="strict"))
    assert text[:100] in str(caught.value)
    assert len(str(caught.value)) < 1500


async def test_8_4_a_bounded_number_of_corrective_turns_lets_the_model_mend_its_answer() -> None:
    executor = answering("nonsense", '{"kind": "fly"}', '{"kind": "pass"}', max_corrective_turns=2)
    assert await run_label(executor) == "none"
    with pytest.raises(nh.ExecutionError, match=r"after 1 corrections.*kind 'fly'.*the model said"):
        await run_label(answering("nonsense", '{"kind": "fly"}', '{"kind": "pass"}', max_corrective_turns=1))


# ---- frontmatter


@pytest.mark.parametrize("response", [pass_response(), raise_response("no")])
async def test_8_4_a_denied_outcome_fails_with_execution_error(response: Any) -> None:
    executor = ScriptedExecutor([response])
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError, match=r"not allowed.*allowed: return"):
            await deny_pass_and_raise("text")
    assert executor.calls[0].allowed_step_kinds == ("return",)
    assert executor.calls[0].natural_program.strip() == "Return a label of <text>."


# ---- commit at the block's boundary


@pytest.mark.parametrize("response", [break_response(seen=[9]), continue_response(seen=[9])])
async def test_8_4_write_bindings_are_committed_whatever_the_outcome(response: Any) -> None:
    @nh.natural_function
    async def last_seen() -> list[int]:
        seen: list[int] = []
        for _ in range(1):
            """natural
            Set <:seen>.
            """
        return seen

    async with nh.run(ScriptedExecutor([response])):
        assert await last_seen() == [9]


async def test_8_4_write_bindings_are_committed_before_an_exception_is_raised() -> None:
    @nh.natural_function
    async def attempt() -> str:
        progress = "none"
        try:
            """natural
            Set <:progress>, then raise ValueError.
            """
        except ValueError as error:
            return f"{progress}: {error}"
        return "not raised"

    async with nh.run(ScriptedExecutor([raise_response("too much", "ValueError", progress="half")])):
        assert await attempt() == "half: too much"


@pytest.mark.parametrize(
    ("bindings", "named"),
    [
        ({"first": "1", "second": "many"}, "write binding 'second' must be int"),
        (
            {"first": "1", "third": 3},
            "'third' cannot be committed; the block's write bindings are: first, second",
        ),
        ({"first": "1"}, "write binding 'second' has no value"),
    ],
)
async def test_8_4_a_commit_is_all_or_nothing(bindings: dict[str, object], named: str) -> None:
    @nh.natural_function
    async def pair() -> object:
        first: int = 0
        second: int
        try:
            """natural
            Set <:first> and <:second>.
            """
        except nh.ExecutionError as error:
            return first, str(error)
        return first, second

    async with nh.run(ScriptedExecutor([pass_response(**bindings)])):
        first, message = await pair()  # type: ignore[misc]
    assert first == 0
    assert named in message


async def test_8_4_an_exception_type_that_takes_no_message_fails_and_keeps_the_message() -> None:
    class PickyError(Exception):
        def __init__(self) -> None:
            super().__init__("picky")

    @nh.natural_function
    async def fail() -> None:
        """natural
        Raise <PickyError>.
        """

    async with nh.run(ScriptedExecutor([raise_response("why", "PickyError")])):
        with pytest.raises(
            nh.ExecutionError, match=r"PickyError cannot be made from a message alone.*message: why"
        ):
            await fail()
