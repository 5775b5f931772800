"""Section 8.3: what a tool call gives, and which failures the model sees."""

import functools
import gc
import json
from collections.abc import Iterator
from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator, BaseModel

import nighthawk_async as nh
from nighthawk_async.kernel import commands
from nighthawk_async.prompt.tokens import TokenCounter
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating, returning

pytestmark = pytest.mark.anyio

GO_ON = "Change the call, or go on without its result."


class Order(BaseModel):
    number: int
    notes: list[str] = []


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("no text")


def explode(value: int) -> int:
    raise KeyError("validator")


@nh.natural_function
async def work(value: Any = None) -> object:
    """natural
    Work with <value> and the tools.
    """


def call(name: str, arguments: str = "{}") -> nh.models.ToolCall:
    return nh.models.ToolCall(id="", name=name, arguments=arguments)


async def results_of(
    *calls: nh.models.ToolCall, tools: Any = (), value: Any = None, **configuration: Any
) -> ScriptedSteps:
    steps = ScriptedSteps(calls, PASS, **configuration)
    async with nh.run(steps.executor):
        for tool in tools:
            nh.tool(tool)
        await work(value)
    return steps


async def error_of(function: Any, **options: Any) -> Any:
    steps = await results_of(evaluating("value()"), value=function, **options)
    assert steps.results[0].is_error
    return steps.envelopes[0]["error"]


# ---- calling tools


async def test_8_3_synchronous_and_async_tools_are_called_with_validated_arguments() -> None:
    def bill(order: Order, factor: float = 2) -> dict[str, Any]:
        return {"total": order.number * factor, "type": type(order).__name__}

    async def wait(count: int) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited " * count

    steps = await results_of(
        call("bill", '{"order": {"number": "3"}}'),
        call("wait", '{"count": 2}'),
        call("wait", ""),
        tools=(bill, wait),
    )
    assert [envelope["value"] for envelope in steps.envelopes] == [
        {"total": 6, "type": "Order"},
        "waited waited ",
        None,
    ]
    assert steps.envelopes[2]["error"]["kind"] == "invalid_input"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{", "Invalid JSON"),
        ("[]", "object"),
        ("{}", "at order: Field required"),
        ('{"order": {"number": "x"}}', "at order.number"),
        ('{"order": {"number": 1}, "more": 1}', "at more: Extra inputs are not permitted"),
        ('{"argument_0": {"number": 1}}', "at order: Field required"),
        ('{"order": {"number": 1}, "checked": 1}', "KeyError"),
    ],
)
async def test_8_3_arguments_that_do_not_fit_never_reach_the_tool(arguments: str, message: str) -> None:
    called: list[object] = []

    def bill(order: Order, checked: Annotated[int, AfterValidator(explode)] = 0) -> None:
        called.append(order)

    steps = await results_of(call("bill", arguments), tools=(bill,))
    error = steps.envelopes[0]["error"]
    assert error["kind"] == "invalid_input"
    assert error["message"].startswith("arguments of bill: ")
    assert message in error["message"]
    assert error["guidance"] == "Call the tool again with arguments that match its schema."
    assert called == []


@pytest.mark.parametrize(
    "arguments",
    ["{", "[]", "{}", '{"expression": 1}', '{"expression": "1", "more": 2}', '{"expression": "\\ud800"}'],
)
@pytest.mark.parametrize("name", ["nh_eval", "nh_assign", "nh_exec"])
async def test_8_3_arguments_that_do_not_fit_a_provided_tool_are_invalid_input(
    name: str, arguments: str
) -> None:
    steps = await results_of(call(name, arguments))
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"


async def test_8_3_an_unknown_tool_is_told_with_the_names_of_those_there_are() -> None:
    def known() -> None: ...

    steps = await results_of(call("unknown"), tools=(known,))
    error = steps.envelopes[0]["error"]
    assert error["kind"] == "resolution"
    assert "'unknown'" in error["message"]
    assert error["guidance"] == "Tools: nh_eval, nh_assign, nh_exec, known."


# ---- failures that the model sees


async def test_8_3_an_exception_of_a_tool_is_an_observation() -> None:
    def fail() -> None:
        raise ValueError("first line\nsecond line")

    async def fail_later() -> None:
        await anyio.lowlevel.checkpoint()
        raise OSError("no disk")

    steps = await results_of(call("fail"), call("fail_later"), tools=(fail, fail_later))
    assert [envelope["error"] for envelope in steps.envelopes] == [
        {"kind": "execution", "message": "ValueError: first line\nsecond line", "guidance": GO_ON},
        {"kind": "execution", "message": "OSError: no disk", "guidance": GO_ON},
    ]
    assert all(result.is_error for result in steps.results)


@pytest.mark.parametrize(
    "kind", ["invalid_input", "resolution", "execution", "transient", "internal", "oversight"]
)
async def test_8_3_a_tool_chooses_the_kind_of_its_failure(kind: nh.errors.ErrorKind) -> None:
    def fail() -> None:
        raise nh.errors.ToolBoundaryError(kind=kind, message="this failed", guidance="do that")

    async def fail_later() -> None:
        fail()

    steps = await results_of(
        call("fail"),
        call("fail_later"),
        evaluating("value()"),
        assigning("x", "value()"),
        tools=(fail, fail_later),
        value=fail_later,
    )
    expected = {"kind": kind, "message": "this failed", "guidance": "do that"}
    assert [envelope["error"] for envelope in steps.envelopes] == [expected] * 4
    assert await error_of(fail) == expected


async def test_8_3_names_that_do_not_exist_are_resolution_errors() -> None:
    steps = await results_of(evaluating("nowhere"), evaluating("(lambda: nowhere)()"))
    for envelope in steps.envelopes:
        assert envelope["error"] == {
            "kind": "resolution",
            "message": "NameError: name 'nowhere' is not defined",
            "guidance": "Use the names shown under LOCALS and GLOBALS.",
        }


@pytest.mark.parametrize("is_transient", [True, False])
async def test_8_3_a_failed_model_request_of_a_nested_step_says_whether_to_try_again(
    is_transient: bool,
) -> None:
    async def nested() -> None:
        raise nh.ModelError("overloaded", is_transient=is_transient)

    error = await error_of(nested)
    assert error["kind"] == ("transient" if is_transient else "execution")
    assert error["message"] == "ModelError: overloaded"


async def test_8_3_a_validation_error_of_user_code_is_told_on_one_line() -> None:
    error = await error_of(lambda: Order.model_validate({"number": "secret"}))
    assert error["kind"] == "execution"
    assert error["message"].startswith("ValidationError: Order: at number: Input should be a valid integer")
    assert "\n" not in error["message"]


async def test_8_3_an_exception_that_cannot_be_shown_is_an_observation_too() -> None:
    def fail() -> None:
        raise Unprintable

    async def fail_later() -> None:
        raise Unprintable

    expected = "Unprintable: its message cannot be shown"
    assert (await error_of(fail))["message"] == expected
    assert (await error_of(fail_later))["message"] == expected


async def test_8_3_an_exception_without_message_shows_its_type() -> None:
    def fail() -> None:
        raise ValueError

    assert (await error_of(fail))["message"] == "ValueError"


async def test_8_3_a_call_of_exit_ends_neither_the_step_nor_the_program() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    steps = await results_of(
        evaluating("exit()"), evaluating("value()"), call("leave"), tools=(leave,), value=leave
    )
    assert [envelope["error"]["message"] for envelope in steps.envelopes] == [
        "SystemExit: None",
        "SystemExit: 3",
        "SystemExit: 3",
    ]


async def test_8_3_a_long_message_is_cut() -> None:
    def fail() -> None:
        raise ValueError("x" * 10_000)

    message = (await error_of(fail))["message"]
    assert len(message) == 4_001
    assert message.endswith("x…")


async def test_8_3_a_failed_call_does_not_stop_the_others() -> None:
    steps = await results_of(evaluating("1 / 0"), call("nothing"), evaluating("2"))
    assert [envelope["value"] for envelope in steps.envelopes] == [None, None, 2]


# ---- results


async def test_8_3_a_result_is_an_envelope_of_value_and_error() -> None:
    steps = await results_of(evaluating("{'a': [1, None, 'é']}"), evaluating("None"))
    assert [json.loads(str(result.content[0])) for result in steps.results] == [
        {"value": {"a": [1, None, "é"]}, "error": None},
        {"value": None, "error": None},
    ]
    assert not any(result.is_error for result in steps.results)


@pytest.fixture
def loaded_tokenizer() -> None:
    """Loading takes seconds of a busy machine, and would be taken for a blocked event loop."""
    TokenCounter(encoding_name="o200k_base").load()


@pytest.mark.usefixtures("loaded_tokenizer")
async def test_8_3_a_result_is_bounded() -> None:
    limits = nh.StepContextLimits(tool_result_max_tokens=50)
    steps = await results_of(
        evaluating("list(range(100_000))"), evaluating("'word ' * 100_000"), context_limits=limits
    )
    assert all(len(str(result.content[0])) < 1_000 for result in steps.results)
    assert not any(result.is_error for result in steps.results)


async def test_8_3_multimodal_payloads_travel_natively_and_in_order() -> None:
    image = nh.BinaryContent(data=b"png", media_type="image/png")
    link = nh.ImageUrl(url="https://host.test/a.png")

    def look() -> list[nh.models.UserContent]:
        return ["before", image, "between", link]

    def show() -> nh.BinaryContent:
        return image

    steps = await results_of(
        call("look"),
        call("show"),
        evaluating("value"),
        evaluating("{'nested': value}"),
        tools=(look, show),
        value=(image, "x"),
    )
    assert [result.content for result in steps.results[:3]] == [
        ("before", image, "between", link),
        (image,),
        (image, "x"),
    ]
    (nested,) = steps.results[3].content
    assert isinstance(nested, str)


async def test_8_3_a_list_of_texts_is_a_preview_and_no_content() -> None:
    steps = await results_of(evaluating("['a', 'b']"), evaluating("[]"))
    assert [envelope["value"] for envelope in steps.envelopes] == [["a", "b"], []]


async def test_8_3_in_place_changes_through_nh_eval_are_not_validated() -> None:
    value: list[Any] = [1]
    await results_of(evaluating("value.append('text')"), value=value)
    assert value == [1, "text"]


# ---- oversight and the host


class Inspector:
    def __init__(self, decide: Any) -> None:
        self.inspections: list[nh.oversight.ToolCallInspection] = []
        self._decide = decide

    async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        self.inspections.append(inspection)
        await anyio.lowlevel.checkpoint()
        return self._decide(inspection)

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        return nh.oversight.Accept()


async def overseen(decide: Any, *calls: nh.models.ToolCall) -> tuple[ScriptedSteps, Inspector]:
    steps, inspector = ScriptedSteps(calls, PASS), Inspector(decide)
    async with nh.run(steps.executor), nh.scope(oversight=inspector):
        await work([])
    return steps, inspector


async def test_8_3_oversight_sees_each_call_in_order_and_may_reject_or_rewrite_it() -> None:
    def decide(inspection: nh.oversight.ToolCallInspection) -> Any:
        match inspection.arguments["expression"]:
            case "1":
                return nh.oversight.Accept()
            case "2":
                return nh.oversight.Reject(reason="not two", guidance="take one")
            case _:
                return nh.oversight.Rewrite(values={"expression": "33"})

    steps, inspector = await overseen(decide, evaluating("1"), evaluating("2"), evaluating("3"))
    assert [dict(each.arguments) for each in inspector.inspections] == [
        {"expression": "1"},
        {"expression": "2"},
        {"expression": "3"},
    ]
    assert inspector.inspections[0].tool_name == "nh_eval"
    assert [envelope["value"] for envelope in steps.envelopes] == [1, None, 33]
    assert steps.envelopes[1]["error"] == {"kind": "oversight", "message": "not two", "guidance": "take one"}


async def test_8_3_calls_under_oversight_keep_their_order() -> None:
    steps, _ = await overseen(
        lambda _: nh.oversight.Accept(), *(evaluating(f"value.append({n}) or value[:]") for n in range(5))
    )
    assert [envelope["value"] for envelope in steps.envelopes] == [list(range(n + 1)) for n in range(5)]


@pytest.mark.parametrize("arguments", ["{", "[1]", "7", '{"expression": NaN}'])
async def test_8_3_oversight_is_not_asked_about_arguments_that_are_no_json_object(arguments: str) -> None:
    steps, inspector = await overseen(
        lambda _: nh.oversight.Accept(), call("nh_eval", arguments), evaluating("1")
    )
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"
    assert steps.envelopes[1]["value"] == 1
    assert len(inspector.inspections) == 1


async def test_8_3_an_unknown_tool_under_oversight_is_an_observation() -> None:
    steps, _ = await overseen(lambda _: nh.oversight.Accept(), call("unknown"))
    assert steps.envelopes[0]["error"]["kind"] == "resolution"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        nh.oversight.Rewrite(values={"expression": {1}}),
        nh.oversight.Rewrite(values={"expression": float("nan")}),
        nh.oversight.Rewrite(values={"expression": [float("inf")]}),
    ],
)
async def test_8_3_a_broken_oversight_hook_is_an_error_of_the_host(answer: Any) -> None:
    with pytest.raises(nh.errors.HookError, match=r"[Oo]versight"):
        await overseen(lambda _: answer, evaluating("1"))


async def test_8_3_what_oversight_raises_reaches_the_host_with_the_name_of_the_hook() -> None:
    def decide(_: nh.oversight.ToolCallInspection) -> Any:
        raise PermissionError("the hook is broken")

    with pytest.raises(
        nh.errors.HookError, match="inspect_tool_call failed: PermissionError: the hook is broken"
    ):
        await overseen(decide, evaluating("1"), evaluating("2"))


async def test_8_3_a_registration_error_found_late_reaches_the_host() -> None:
    def lost(value: "Nowhere") -> None: ...  # type: ignore[name-defined]

    with pytest.raises(nh.ToolRegistrationError, match="Nowhere"):
        await results_of(call("lost"), tools=(lost,))


async def test_8_3_tools_see_the_step_they_are_called_by() -> None:
    def which() -> str:
        return nh.get_current_step_context().step_id

    steps = ScriptedSteps((call("which"),), returning("which()"))
    async with nh.run(steps.executor), nh.scope(implicit_references={"which": which}):
        nh.tool(which)
        assert await work() == steps.envelopes[0]["value"]


# ---- slow synchronous functions


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Let no garbage collection fall into a call, which would not be blamed for it."""
    gc.disable()
    yield
    gc.enable()


def make_every_call_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes between two looks at the clock."""
    clock = iter(range(0, 10_000, 1))
    monkeypatch.setattr(commands.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(commands, "_reported", set())
    monkeypatch.setattr(commands, "_SLOW_SECONDS", 0.5)


@pytest.mark.usefixtures("no_collections")
async def test_8_3_a_function_that_holds_the_loop_is_logged_once_with_its_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_every_call_slow(monkeypatch)

    def slow(number: int) -> int:
        return number

    steps = await results_of(
        evaluating("value(1)"),
        evaluating("value(2)"),
        evaluating("'no function'.upper()"),
        evaluating("'no function'.upper()"),
        call("slow", '{"number": 1}'),
        tools=(slow,),
        value=slow,
    )
    assert not any(result.is_error for result in steps.results)
    assert [record.getMessage().partition(" held")[0] for record in caplog.records] == [
        "value",
        "'no function'.upper()",
        "slow",
    ]
    assert "nighthawk_async.blocking" in caplog.text


@nh.natural_function
async def later(number: int) -> int:
    """natural
    Return <number>.
    """
    return number


@nh.natural_function
def now(number: int) -> int:
    """natural
    Return <number>.
    """
    return number


async def soon(number: int) -> int:
    return number


def plain(number: int) -> int:
    return number


class Doubler:
    def double(self, number: int) -> int:
        return 2 * number


@pytest.mark.parametrize(
    ("value", "expression", "title", "advice"),
    [
        (plain, "value(1)", "value", "wrap it with nighthawk_async.blocking"),
        (functools.partial(plain, 1), "value()", "value", "wrap it with nighthawk_async.blocking"),
        (Doubler().double, "value(1)", "value", "wrap it with nighthawk_async.blocking"),
        (Doubler, "value()", "value", "make it in a synchronous function that is wrapped with"),
        (now, "value(1)", "value", "make it `async def`, or wrap it with nighthawk_async.blocking"),
        (later, "await value(1)", "await value(1)", "its awaits are fine; move slow computation"),
        (soon, "await value(1)", "await value(1)", "its awaits are fine; move slow computation"),
        (nh.blocking(plain), "value(1)", "value(1)", "its awaits are fine; move slow computation"),
        (7, "value + 1", "value + 1", "move slow parts into a synchronous function"),
    ],
)
@pytest.mark.usefixtures("no_collections")
async def test_8_3_what_is_said_of_a_held_loop_fits_what_was_called(
    value: Any,
    expression: str,
    title: str,
    advice: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`blocking` takes no `async def` function, so nobody is told to wrap one."""
    make_every_call_slow(monkeypatch)
    executor = ScriptedSteps((evaluating(expression),), PASS, PASS)
    async with nh.run(executor.executor):
        await work(value)
    (said,) = [each.getMessage() for each in caplog.records if each.getMessage().startswith(f"{title} held ")]
    assert f" ms; {advice}" in said


@pytest.mark.usefixtures("no_collections")
async def test_8_3_a_tool_that_holds_the_loop_is_told_how_tools_do_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_every_call_slow(monkeypatch)
    await results_of(call("plain", '{"number": 1}'), tools=(plain,))
    (record,) = caplog.records
    assert "plain held the event loop" in record.getMessage()
    assert (
        "make it `async def`, or register nighthawk_async.blocking(function) as the tool"
        in record.getMessage()
    )


async def test_8_3_a_garbage_collection_is_not_blamed_on_the_call_it_falls_into(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_every_call_slow(monkeypatch)

    def collect(number: int) -> int:
        gc.collect()
        return number

    await results_of(evaluating("value(1)"), value=collect)
    assert not caplog.records


async def test_8_3_a_blocking_function_runs_in_a_worker_thread() -> None:
    import threading

    def thread_name(number: int, step: str = "") -> tuple[bool, str]:
        """Say where it runs."""
        return threading.current_thread() is threading.main_thread(), nh.get_current_step_context().step_id

    wrapped = nh.blocking(thread_name)
    steps = await results_of(
        evaluating("(await value(1))[0]"),
        call("thread_name", '{"number": 1}'),
        tools=(wrapped,),
        value=wrapped,
    )
    assert steps.envelopes[0]["value"] is False
    assert steps.envelopes[1]["value"][0] is False
    assert wrapped.__doc__ == "Say where it runs."


async def test_8_3_only_synchronous_functions_can_be_blocking() -> None:
    async def explode_later() -> None: ...

    with pytest.raises(TypeError, match="explode_later is async"):
        nh.blocking(explode_later)
