"""Bad input of every kind: a typed error that names the thing, with nothing left running.

The detectors in `tests/conftest.py` fail a test that leaves a thread, a child process or a socket behind.
"""

import linecache
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    ModelReply,
    ModelServer,
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    pass_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

OUTCOME = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def label_text(text: str) -> str:
    """natural
    Set <:label> to a label for <text>.
    """
    label: str
    return label


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def executor_for(model: str, **model_settings: Any) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(model=model, model_settings=model_settings)
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


def scripted(*answers: Any, **limits: Any) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(**limits)
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answers), configuration=configuration)


async def run_against(reply: ModelReply, **model_settings: Any) -> str:
    """Run one step against a server that gives one reply."""
    settings = {"max_retries": 0, **model_settings}
    async with (
        ModelServer(lambda request: reply) as server,
        nh.run(executor_for("openai-chat:any", base_url=server.base_url, **settings)),
    ):
        with anyio.fail_after(240):
            return await label_text("good")


# ---- models and endpoints


@pytest.mark.parametrize(
    ("model", "error", "named"),
    [
        ("nobody:gpt", nh.errors.UnknownModelError, "'nobody'"),
        ("gpt-5.4-nano", nh.errors.UnknownModelError, "'gpt-5.4-nano'"),
        ("openai-chat:", nh.errors.UnknownModelError, "'openai-chat:'"),
        (":gpt", nh.errors.UnknownModelError, "':gpt'"),
        ("local:nothing-of-that-name", nh.errors.UnknownModelError, "'nothing-of-that-name'"),
        ("openai-chat:gpt-5.4-nano", nh.errors.MissingCredentialError, "OPENAI_API_KEY"),
    ],
)
def test_a_model_that_cannot_be_had_is_named_before_anything_is_sent(
    model: str, error: type[nh.ConfigurationError], named: str
) -> None:
    with pytest.raises(error, match=named):
        executor_for(model)


async def test_a_refused_connection_names_the_host(free_tcp_port: int) -> None:
    executor = executor_for("openai-chat:any", base_url=f"http://127.0.0.1:{free_tcp_port}/v1", max_retries=0)
    async with nh.run(executor):
        with pytest.raises(nh.errors.ModelConnectionError, match=r"127\.0\.0\.1"), anyio.fail_after(240):
            await label_text("good")


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_error_status_is_raised_with_its_number_and_the_endpoints_message(status: int) -> None:
    with pytest.raises(nh.errors.ModelStatusError, match="the reason why") as caught:
        await run_against(ModelReply(status=status, text="the reason why"))
    assert caught.value.status == status
    assert caught.value.is_transient == (status in (429, 500, 503))


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>a proxy's page</html>", "text/html"),
        (b"\xff\xfe\x00 nothing anyone could read", "text/event-stream"),
        (b"data: {not json}\n\n", "text/event-stream"),
        (b"", "text/event-stream"),
    ],
)
async def test_garbage_instead_of_a_stream_is_a_protocol_error(body: bytes, content_type: str) -> None:
    with pytest.raises(nh.errors.ModelProtocolError, match="openai-chat:any"):
        await run_against(ModelReply(body=body, headers={"content-type": content_type}))


async def test_a_stream_that_ends_too_early_is_a_protocol_error_and_its_tool_call_is_not_run() -> None:
    call = tool_call("nh_assign", target_path="label", expression="'never'")
    with pytest.raises(nh.ModelError):
        await run_against(ModelReply(tool_calls=(call,), ending="close", ending_after=2))


# ---- what the model says


@pytest.mark.parametrize(
    "call",
    [
        tool_call("nh_assign", target="label", expression="'good'"),
        tool_call("nh_assign", target_path="label"),
        tool_call("nh_assign", target_path="label[0]", expression="1"),
        tool_call("nh_assign", target_path="label", expression="'good' +"),
        tool_call("nh_assign", target_path="label", expression="{}"),
        tool_call("no_such_tool", value=1),
    ],
)
async def test_a_bad_tool_call_goes_back_to_the_model_which_can_mend_it(call: Any) -> None:
    good = tool_call("nh_assign", target_path="label", expression="'good'")
    model = ScriptedModel([model_response(call, OUTCOME), model_response(good, OUTCOME)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await label_text("good") == "good"
    refused = model.requests[1].messages[-1].results  # type: ignore[union-attr]
    assert [result.is_error for result in refused] == [True, True]
    assert '"error": {"kind"' in str(refused[0].content[0])


async def test_arguments_that_are_not_json_go_back_to_the_model() -> None:
    broken = tool_call("nh_eval")
    object.__setattr__(broken, "arguments", '{"expression": "1')
    good = tool_call("nh_assign", target_path="label", expression="'good'")
    model = ScriptedModel([model_response(broken), model_response(good, OUTCOME)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await label_text("good") == "good"


async def test_a_missing_write_binding_is_named_after_bounded_corrections() -> None:
    answers = [model_response(OUTCOME) for _ in range(3)]
    async with nh.run(scripted(*answers, max_corrective_turns=2)):
        with pytest.raises(nh.ExecutionError, match="'label'"):
            await label_text("good")


async def test_a_disallowed_outcome_is_named_after_bounded_corrections() -> None:
    answers = [model_response(tool_call("nh_outcome", kind="break")) for _ in range(2)]
    async with nh.run(scripted(*answers, max_corrective_turns=1)):
        with pytest.raises(nh.ExecutionError, match="'break' is not allowed"):
            await label_text("good")


async def test_text_that_is_no_outcome_is_quoted_after_bounded_corrections() -> None:
    answers = [model_response(text="I would rather not.") for _ in range(2)]
    async with nh.run(scripted(*answers, max_corrective_turns=1)):
        with pytest.raises(nh.ExecutionError, match=r"I would rather not\."):
            await label_text("good")


# ---- executors


class NonsenseExecutor:
    """Returns whatever it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def run_step_async(self, **arguments: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (None, "NonsenseExecutor returned None"),
        (("pass", {}), "'pass'"),
        ((nh.executors.PassStepOutcome(), None), "no mapping: None"),
        ((nh.executors.PassStepOutcome(), {"label": 1.5}), "'label' must be str"),
        ((nh.executors.PassStepOutcome(), {"other": 1}), "'other'"),
        ((nh.executors.PassStepOutcome(), {}), "'label' has no value"),
        ((nh.executors.BreakStepOutcome(), {}), "'break' is not allowed"),
        ((nh.executors.RaiseStepOutcome(raise_message="x", raise_error_type="Nope"), {}), "'Nope'"),
    ],
)
async def test_an_executor_that_returns_nonsense_is_told_what_is_wrong(answer: Any, named: str) -> None:
    async with nh.run(NonsenseExecutor(answer)):
        with pytest.raises(nh.ExecutionError, match=named):
            await label_text("good")


def test_an_object_that_is_no_executor_is_refused() -> None:
    with pytest.raises(nh.NighthawkError, match="no step executor"):
        nh.run(object())  # type: ignore[arg-type]


# ---- functions


def test_a_decorated_lambda_is_refused() -> None:
    with pytest.raises(nh.NaturalParseError, match="lambda"):
        nh.natural_function(lambda: None)


def test_a_function_without_source_is_refused_and_named() -> None:
    namespace: dict[str, Any] = {}
    code = compile("def typed_at_a_prompt():\n    'natural\\nDo it.'", "<kept nowhere>", "exec")
    exec(code, namespace)
    linecache.checkcache()
    with pytest.raises(nh.NaturalParseError, match="source"):
        nh.natural_function(namespace["typed_at_a_prompt"])


async def test_a_step_outside_a_run_says_how_to_enter_one() -> None:
    with pytest.raises(nh.NighthawkError, match=r"nighthawk_async\.run"):
        await label_text("good")


async def test_a_synchronous_natural_function_inside_a_running_loop_works_and_warns() -> None:
    @nh.natural_function
    def label_now(text: str) -> str:
        """natural
        Set <:label> to a label for <text>.
        """
        label: str
        return label

    async with nh.run(ScriptedExecutor(default_response=pass_response(label="good"))):
        with pytest.warns(RuntimeWarning, match="event loop"):
            assert label_now("good") == "good"


def test_a_loop_inside_a_loop_inside_a_step_does_not_disturb_the_run() -> None:
    def asks_with_its_own_loop() -> str:
        return anyio.run(label_text, "good", backend="asyncio")

    @nh.natural_function
    def ask() -> str:
        """natural
        Set <:answer> with <asks_with_its_own_loop>.
        """
        answer: str
        return answer

    model = ScriptedModel(
        [
            model_response(
                tool_call("nh_assign", target_path="answer", expression="asks_with_its_own_loop()")
            ),
            model_response(tool_call("nh_assign", target_path="answer", expression="'no'"), OUTCOME),
        ]
    )
    with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert ask() == "no"
    assert "Already running" in str(model.requests[1].messages[-1])


class SynchronousByMistake:
    def run_step_async(self, **arguments: Any) -> Any:
        return nh.executors.PassStepOutcome(), {}


class WithoutMethods:
    run_step_async = 5


async def test_an_executor_that_forgot_async_is_named() -> None:
    async with nh.run(SynchronousByMistake()):
        with pytest.raises(
            nh.ExecutionError, match=r"SynchronousByMistake\.run_step_async must be `async def`"
        ):
            await label_text("good")


def test_an_executor_whose_method_cannot_be_called_is_refused() -> None:
    with pytest.raises(nh.NighthawkError, match="no step executor"):
        nh.run(WithoutMethods())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        {"implicit_references": {1: 1}},
        {"implicit_references": {"class": 1}},
        {"system_prompt_suffix_fragments": [1]},
        {"user_prompt_suffix_fragments": "text"},
        {"mode": "both"},
    ],
)
def test_bad_arguments_of_a_scope_are_refused_at_once(arguments: dict[str, Any]) -> None:
    with nh.run(ScriptedExecutor()), pytest.raises(nh.NighthawkError):
        nh.scope(**arguments)


@pytest.mark.parametrize("arguments", [{"run_id": 3}, {"sync_backend": "curio"}])
def test_bad_arguments_of_a_run_are_refused_at_once(arguments: dict[str, Any]) -> None:
    with pytest.raises(nh.NighthawkError, match=next(iter(arguments))):
        nh.run(ScriptedExecutor(), **arguments)


@pytest.mark.parametrize(
    ("transport", "capabilities", "named"),
    [
        ("native", {}, "'structured_output'"),
        ("tool", {"tools": False}, "'tools'"),
    ],
)
def test_a_transport_that_the_model_cannot_serve_is_refused_at_construction(
    transport: Any, capabilities: dict[str, bool], named: str
) -> None:
    settings = {"base_url": "http://127.0.0.1:9/v1", "capabilities": capabilities}
    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:unknown-model", model_settings=settings, outcome_transport=transport
    )
    with pytest.raises(nh.ConfigurationError, match=named):
        nh.AgentStepExecutor.from_configuration(configuration=configuration)


def test_what_is_no_model_and_no_configuration_is_refused_at_construction() -> None:
    with pytest.raises(nh.ConfigurationError, match="no model"):
        nh.AgentStepExecutor.from_model(model=None)  # type: ignore[arg-type]
    with pytest.raises(nh.ConfigurationError, match=r"takes a StepExecutorConfiguration, not .NoneType"):
        nh.AgentStepExecutor.from_configuration(configuration=None)  # type: ignore[arg-type]
