"""Pasts: steps that begin with the conversation of another one."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import TranscriptError
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.models import (
    AssistantMessage,
    Message,
    ModelCapabilities,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserMessage,
)
from nighthawk_async.testing import (
    ScriptedModel,
    model_response,
)
from tests.unit.transcripts.transcript_steps import (
    OPENING,
    looking,
    made_of,
    prompt_of,
    roles_of,
    setting,
    transcript_of,
    triage,
    turn,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_tools_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLOBAL_TOOLS, "_tools", {})


async def test_a_step_carries_on() -> None:
    past = await transcript_of(looking("mail.upper()"), setting("complaint"))
    model = ScriptedModel([setting("order")])
    async with nh.run(model):
        with nh.scope(past=past):
            assert await triage("another lamp") == "order"
        transcript = nh.transcript()
    (request,) = model.requests
    assert request.messages[:-1] == past.messages
    assert "another lamp" in prompt_of(request.messages[-1])
    assert transcript.messages[: len(past.messages)] == past.messages
    assert len(transcript) == 3
    assert transcript[:-1].messages == past.messages


async def test_two_steps_fork_from_one_transcript() -> None:
    past = await transcript_of(setting("complaint"))
    model = ScriptedModel([setting("order"), setting("other")])
    async with nh.run(model), nh.scope(past=past):
        forks: list[nh.Transcript] = []
        for mail in ("one", "two"):
            await triage(mail)
            forks.append(nh.transcript())
    assert [request.messages[:-1] for request in model.requests] == [past.messages] * 2
    assert [len(each) for each in forks] == [2, 2]
    assert '"one"' not in str(forks[1])


async def test_a_failed_step_is_continued_where_it_failed() -> None:
    async with nh.run(ScriptedModel([looking("mail.upper()"), nh.ModelError("gone")])):
        with pytest.raises(nh.ModelError):
            await triage("a lamp")
        failed = nh.transcript()
    model = ScriptedModel([setting("order")])
    async with nh.run(model):
        with nh.scope(past=failed):
            assert await triage("a lamp") == "order"
    assert roles_of(model.requests[0].messages) == ["user", "model", "results", "user"]


async def test_steps_within_steps_have_no_past() -> None:
    past = await transcript_of(setting("complaint"))

    async def classify(mail: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return await triage(mail)

    @nh.natural_function
    async def handle(mail: str) -> str:
        label = ""
        """natural
        Set <:label> with <classify>.
        """
        return label

    answers = [looking("await classify(mail)"), setting("inner"), setting("outer")]
    model = ScriptedModel(answers)
    async with nh.run(model):
        with nh.scope(past=past):
            assert await handle("a lamp") == "outer"
    assert [len(request.messages) for request in model.requests] == [4, 1, 6]


async def test_inner_scopes_replace_the_past_and_none_clears_it() -> None:
    first = await transcript_of(setting("first"))
    second = await transcript_of(setting("second"), name="scripted:model")
    model = ScriptedModel(lambda request: setting("order"))
    async with nh.run(model):
        with nh.scope(past=first):
            with nh.scope(past=second):
                await triage("in second")
            with nh.scope(max_depth=3):
                await triage("in first")
            with nh.scope(mode="replace", past=None):
                await triage("in none")
            with nh.scope(mode="replace", system_prompt_suffix_fragments=[]):
                await triage("in first again")
        await triage("outside")
    begins = [request.messages[:-1] for request in model.requests]
    assert begins == [second.messages, first.messages, (), first.messages, ()]


async def test_a_scope_with_a_past_decorates_functions() -> None:
    past = await transcript_of(setting("complaint"))
    model = ScriptedModel([setting("order")])
    async with nh.run(model):
        await nh.scope(past=past)(triage)("a lamp")
    assert model.requests[0].messages[:-1] == past.messages


@pytest.mark.parametrize("past", ["past.json", [], OPENING], ids=["a path", "a list", "a message"])
async def test_only_a_transcript_can_be_a_past(past: object) -> None:
    async with nh.run(ScriptedModel([])):
        with pytest.raises(TranscriptError, match=r"past must be a nighthawk_async\.Transcript or None, not"):
            nh.scope(past=past)  # type: ignore[arg-type]


def with_content_of(provider: str) -> nh.Transcript:
    """A conversation with content that only its own model reads, media, and ids that occur twice."""
    call = ToolCall(id="call", name="look", arguments='{"at": 1}')
    content = ProviderContent(protocol=provider, items=({"type": "reasoning", "encrypted_content": "…"},))
    response = AssistantMessage(text="I look.", tool_calls=(call,), provider_content=content)
    results = ToolResultsMessage(results=(ToolResult(call_id="call", name="look", content=("seen",)),))
    image = nh.BinaryContent(data=b"123", media_type="image/png")
    uploaded = UploadedFile(file_id="file-1", provider_name=provider, media_type="image/png")
    return nh.Transcript(
        step_id="shop:1",
        model=f"{provider}:first",
        system_prompt="Work.",
        messages=(
            UserMessage(content=("the program", image, uploaded)),
            response,
            results,
            response,
            results,
        ),
    )


async def past_seen_by(
    model: ScriptedModel, past: nh.Transcript, **configuration: object
) -> tuple[Message, ...]:
    settings = nh.StepExecutorConfiguration(**configuration)  # type: ignore[arg-type]
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=settings)):
        with nh.scope(past=past):
            await triage("a lamp")
    return model.requests[0].messages[:-1]


async def test_the_same_model_gets_its_own_content_back() -> None:
    past = with_content_of("scripted")
    model = ScriptedModel([setting("order")], name="scripted:first")
    assert await past_seen_by(model, past) == past.messages


async def test_another_model_gets_what_it_can_read() -> None:
    model = ScriptedModel([setting("order")], capabilities=ModelCapabilities(images=False))
    seen = await past_seen_by(model, with_content_of("elsewhere"))
    assert seen[0] == UserMessage(
        content=(
            "the program",
            "[image image/png, 3 bytes; it cannot be shown to this model]",
            "[image image/png uploaded to elsewhere as file-1; it cannot be shown to this model]",
        )
    )
    calls = [message.tool_calls for message in seen if isinstance(message, AssistantMessage)]
    results = [message.results for message in seen if isinstance(message, ToolResultsMessage)]
    assert [call.id for (call,) in calls] == [result.call_id for (result,) in results] == ["call", "call_2"]
    assert all(each.provider_content is None for each in seen if isinstance(each, AssistantMessage))


@pytest.mark.parametrize("transport", ["native", "direct"])
async def test_a_step_without_tools_reads_calls_as_text(transport: str) -> None:
    capabilities = ModelCapabilities(structured_output=True, tools=False)
    answer = model_response(text='{"result": {"kind": "pass", "bindings": {"label": "order"}}}')
    model = ScriptedModel([answer], capabilities=capabilities)
    past = with_content_of("elsewhere")[:1]
    seen = await past_seen_by(model, past, outcome_transport=transport, provided_tools=())
    assert seen[1:] == (
        AssistantMessage(text='I look.\n[called look with {"at": 1}]'),
        UserMessage(content=("[result of look]", "seen")),
    )


# ---- other transports and agents


async def test_a_direct_answer_has_a_transcript() -> None:
    answers = [
        model_response(text='{"result": {"kind": "pass", "bindings": {"label": 7}}}'),
        model_response(text='{"result": {"kind": "pass", "bindings": {"label": "order"}}}'),
    ]
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    model = ScriptedModel(answers, capabilities=ModelCapabilities(structured_output=True))
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=configuration)):
        await triage("a lamp")
        transcript = nh.transcript()
    assert roles_of(transcript.messages) == ["user", "model", "user", "model"]
    assert transcript.system_prompt == model.requests[0].system_prompt
    assert transcript.messages[:-1] == model.requests[-1].messages


async def test_the_short_questions_to_a_small_model_are_one_transcript() -> None:
    @nh.natural_function
    async def sort_out(mail: str) -> tuple[bool, list[str]]:
        is_order = False
        words: list[str] = []
        """natural
        Set <:is_order>, and <:words> to the words of <mail>.
        """
        return is_order, words

    answers = [model_response(text='{"is_order": true}'), model_response(text='{"words": ["a"]}')]
    capabilities = ModelCapabilities(structured_output=True, is_small=True)
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    model = ScriptedModel(answers, capabilities=capabilities)
    past = made_of(OPENING, *turn(1))
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=configuration)):
        with nh.scope(past=past):
            assert await sort_out("a") == (True, ["a"])
        transcript = nh.transcript()
    assert [len(request.messages) for request in model.requests] == [4, 4]
    assert roles_of(transcript.messages) == ["user", "model", "user", "user", "model", "user", "model"]


async def test_an_agent_of_ones_own_can_have_a_past_and_a_transcript() -> None:
    class Agent:
        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            messages = [*task.past, UserMessage(content=task.user_prompt), AssistantMessage(text="Done.")]
            task.keep_messages(messages)
            return nh.executors.PassStepOutcome()

    past = made_of(OPENING, *turn(1))
    async with nh.run(nh.AgentStepExecutor.from_agent(Agent())):
        with nh.scope(past=past):
            await triage("a lamp")
        transcript = nh.transcript()
    assert transcript.messages[:3] == past.messages
    assert (transcript.model, len(transcript)) == ("", 2)


# ---- durable runs


async def test_every_life_of_a_run_has_the_same_transcripts(tmp_path: Path) -> None:
    class PowerFailure(BaseException):
        pass

    async def program(*, fails: bool) -> nh.Transcript:
        await triage("first")
        past = nh.transcript()
        if fails:
            raise PowerFailure
        with nh.scope(past=past):
            await triage("second")
        return nh.transcript()

    model = ScriptedModel([looking("mail.upper()"), setting("order"), setting("other")])
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        with pytest.raises(PowerFailure):
            async with nh.run(model, journal=store, run_id="run"):
                await program(fails=True)
        for _ in range(2):
            async with nh.run(model, journal=store, run_id="run"):
                transcript = await program(fails=False)
            assert len(model.requests) == 3
            assert [len(each.messages) for each in model.requests] == [1, 3, 6]
            assert transcript.messages[:6] == model.requests[-1].messages
