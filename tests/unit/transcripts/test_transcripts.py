"""Transcripts: the conversation of the last step of a task, as a value."""

import copy
import gc
import pickle
from collections.abc import Callable

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import TranscriptError
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.models import (
    AssistantMessage,
    Message,
    ModelRequest,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    model_response,
    pass_response,
    tool_call,
)
from tests.unit.transcripts.transcript_steps import (
    OPENING,
    looking,
    made_of,
    prompt_of,
    roles_of,
    setting,
    triage,
    triage_synchronously,
    turn,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_tools_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLOBAL_TOOLS, "_tools", {})


# ---- the last step


async def test_a_finished_step_has_its_whole_conversation() -> None:
    async with nh.run(ScriptedModel([looking("mail.upper()", text="I look."), setting("complaint")])):
        assert await triage("a broken lamp") == "complaint"
        transcript = nh.transcript()
    assert roles_of(transcript.messages) == ["user", "model", "results", "model", "results"]
    assert "a broken lamp" in prompt_of(transcript.messages[0])
    assert "A BROKEN LAMP" in str(transcript)
    assert transcript.messages[-1] == ToolResultsMessage(
        results=(ToolResult(call_id="call_0", name="nh_outcome", content=("accepted",)),)
    )
    assert (transcript.outcome, transcript.error, len(transcript)) == ("pass", None, 2)
    assert transcript.usage.requests == 2
    assert transcript.model == "scripted:model"
    assert transcript.step_id.startswith(f"{triage.__module__}:")
    assert "<:x>" in transcript.system_prompt
    assert transcript.tools == ()


async def test_it_is_that_of_the_last_block_that_was_executed() -> None:
    @nh.natural_function
    async def twice() -> str:
        first = second = ""
        """natural
        Set <:first>.
        """
        """natural
        Set <:second>.
        """
        return first + second

    answers = [
        model_response(tool_call("nh_outcome", kind="pass", bindings={name: name}))
        for name in ("first", "second")
    ]
    async with nh.run(ScriptedModel(answers)):
        await twice()
        assert "Set <:second>" in prompt_of(nh.transcript().messages[0])
    assert len(nh.transcript()) == 1  # also after the run


async def test_a_failed_step_has_a_transcript() -> None:
    wrong = model_response(tool_call("nh_outcome", kind="pass", bindings={"label": 7}))
    configuration = nh.StepExecutorConfiguration(max_corrective_turns=1)
    executor = nh.AgentStepExecutor.from_model(ScriptedModel([wrong, wrong]), configuration=configuration)
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError):
            await triage("a lamp")
        transcript = nh.transcript()
    assert roles_of(transcript.messages) == ["user", "model", "results", "model", "results"]
    assert transcript.outcome is None
    assert transcript.error is not None
    assert transcript.error.startswith("ExecutionError: ")
    assert "no acceptable outcome" in str(transcript)


async def test_calls_without_results_get_one_that_says_why() -> None:
    called: list[str] = []

    async def fetch(page: str) -> str:
        """Fetch a page."""
        called.append(page)
        if page == "first":
            return "text"
        await anyio.sleep_forever()
        return ""

    calls = (tool_call("fetch", page="first"), tool_call("fetch", page="second"))
    async with nh.run(ScriptedModel([model_response(*calls, text="I fetch.")])):
        with anyio.CancelScope() as scope, nh.scope(tools=[fetch]):
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(_cancel_when, scope, lambda: called == ["first", "second"])
                await triage("a lamp")
        transcript = nh.transcript()
    assert transcript.error == "cancelled"
    assert roles_of(transcript.messages) == ["user", "model", "results"]
    (results,) = [each for each in transcript.messages if isinstance(each, ToolResultsMessage)]
    assert [result.is_error for result in results.results] == [False, True]
    assert results.results[1].content == ("no result; the step ended before: cancelled",)


async def _cancel_when(scope: anyio.CancelScope, condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


async def test_a_response_that_breaks_off_is_part_of_it() -> None:
    broken = ModelResponse(events=(*model_response(text="Let me").events[:1],))
    async with nh.run(ScriptedModel([broken])):
        with pytest.raises(nh.ModelError):
            await triage("a lamp")
        transcript = nh.transcript()
    assert transcript.messages[1] == AssistantMessage(text="Let me")


async def test_a_step_that_raises_has_a_transcript() -> None:
    raising = model_response(tool_call("nh_outcome", kind="raise", raise_message="no kind fits"))
    async with nh.run(ScriptedModel([raising])):
        with pytest.raises(nh.ExecutionError, match="no kind fits"):
            await triage("a lamp")
        assert (nh.transcript().outcome, nh.transcript().error) == ("raise", None)


async def test_the_last_attempt_counts_when_a_step_is_retried() -> None:
    answers: list[ModelResponse | nh.ModelError] = [
        nh.ModelError("try again", is_transient=True),
        setting("order"),
    ]
    baseline = nh.resilience.Baseline(
        retries=nh.resilience.retrying(attempts=2, wait=lambda attempt, error: 0)
    )
    async with nh.run(ScriptedModel(answers), resilience=baseline):
        await triage("a lamp")
        assert (len(nh.transcript()), nh.transcript().outcome) == (1, "pass")


async def test_synchronous_functions_have_transcripts() -> None:
    def work() -> nh.Transcript:
        triage_synchronously("a lamp")
        return nh.transcript()

    async with nh.run(ScriptedModel([setting("order")])):
        transcript = await anyio.to_thread.run_sync(work)
    assert (len(transcript), transcript.outcome) == (1, "pass")


def test_scripts_without_a_loop_have_transcripts() -> None:
    with nh.run(ScriptedModel([setting("order")])):
        triage_synchronously("a lamp")
        assert len(nh.transcript()) == 1


async def test_a_hundred_parallel_steps_each_see_their_own() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        prompt = prompt_of(request.messages[0])
        return setting(next(word for word in prompt.split('"') if word.startswith("mail ")))

    async def triage_one(number: int) -> nh.Transcript:
        label = await triage(f"mail {number}")
        await anyio.lowlevel.checkpoint()
        transcript = nh.transcript()
        assert label == f"mail {number}"
        assert f'"mail {number}"' in prompt_of(transcript.messages[0])
        return transcript

    async with nh.run(ScriptedModel(answer)):
        results = await nh.parallel.gather(*[triage_one(number) for number in range(50)])
        async with anyio.create_task_group() as task_group:
            for number in range(50, 100):
                task_group.start_soon(triage_one, number)
        with pytest.raises(TranscriptError, match="No step has ended in this task"):
            nh.transcript()
    assert len({str(each) for each in results}) == 50


async def test_steps_of_tool_calls_are_not_those_of_the_task() -> None:
    inner: list[nh.Transcript] = []

    async def classify(mail: str) -> str:  # pyright: ignore[reportUnusedFunction]
        label = await triage(mail)
        inner.append(nh.transcript())
        return label

    @nh.natural_function
    async def handle(mail: str) -> str:
        label = ""
        """natural
        Set <:label> with <classify>.
        """
        return label

    def answer(request: ModelRequest) -> ModelResponse:
        if "with <classify>" not in prompt_of(request.messages[0]):
            return setting("inner")
        return looking("await classify(mail)") if len(request.messages) == 1 else setting("outer")

    async with nh.run(ScriptedModel(answer)):
        assert await handle("a lamp") == "outer"
        assert "with <classify>" in prompt_of(nh.transcript().messages[0])
    assert [len(each) for each in inner] == [1]


async def test_a_step_in_progress_has_none_yet() -> None:
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        with pytest.raises(TranscriptError, match="No step has ended in this task"):
            nh.transcript()
        return "looked"

    @nh.natural_function
    async def work() -> str:
        """natural
        Return what <look> gives.
        """
        return ""

    answer = model_response(tool_call("nh_outcome", kind="return", return_expression="look()"))
    async with nh.run(ScriptedModel([answer])):
        assert await work() == "looked"


async def test_without_a_step_there_is_none() -> None:
    with pytest.raises(TranscriptError, match="No step has ended in this task"):
        nh.transcript()


async def test_an_executor_without_a_model_leaves_none() -> None:
    async with nh.run(CallbackExecutor(lambda call: pass_response(label="order"))):
        await triage("a lamp")
        with pytest.raises(TranscriptError, match="no conversation with a model; its executor asks no model"):
            nh.transcript()


async def test_a_step_that_could_not_begin_hides_the_one_before() -> None:
    @nh.natural_function
    async def broken() -> None:
        """natural
        Look at <missing>.
        """

    async with nh.run(ScriptedModel([setting("order")])):
        await triage("a lamp")
        with pytest.raises(NameError):
            await broken()
        with pytest.raises(TranscriptError, match="it failed before: NameError"):
            nh.transcript()


# ---- lifetime


def responses_alive() -> int:
    gc.collect()
    return sum(type(each) is AssistantMessage for each in gc.get_objects())


async def wait_until_alive(expected: int) -> None:
    """Wait until so many responses are alive; the last frames of tasks end a moment after their results."""
    for _ in range(100):
        if responses_alive() == expected:
            return
        await anyio.lowlevel.checkpoint()
    assert responses_alive() == expected


def forgetful(answer: ModelResponse) -> ScriptedModel:
    """A model that does not keep the requests itself."""

    def forget(request: ModelRequest) -> ModelResponse:
        model.requests.clear()
        return answer

    model = ScriptedModel(forget)
    return model


async def test_a_burst_keeps_no_conversation_alive() -> None:
    before = responses_alive()
    async with nh.run(forgetful(setting("order"))):
        await nh.parallel.map(triage, [f"mail {number}" for number in range(100)])
        await wait_until_alive(before)


async def test_a_task_keeps_the_conversation_of_its_last_step_alone() -> None:
    before = responses_alive()
    async with nh.run(forgetful(setting("order"))):
        for number in range(5):
            await triage(f"mail {number}")
            await wait_until_alive(before + 1)
        assert '"mail 4"' in prompt_of(nh.transcript().messages[0])


async def test_tasks_that_are_started_later_keep_no_conversation_alive() -> None:
    before = responses_alive()
    async with nh.run(forgetful(setting("order"))), anyio.create_task_group() as task_group:

        async def dispatch(number: int) -> None:
            await triage(f"mail {number}")
            task_group.start_soon(anyio.sleep_forever)

        for number in range(5):
            await dispatch(number)
        await wait_until_alive(before + 1)
        await nh.parallel.map(dispatch, range(5))
        await wait_until_alive(before + 1)
        task_group.cancel_scope.cancel()


async def test_what_begins_within_a_step_keeps_no_conversation_alive() -> None:
    before = responses_alive()
    async with anyio.create_task_group() as task_group:

        async def begin() -> str:
            task_group.start_soon(anyio.sleep_forever)
            return "begun"

        @nh.natural_function
        async def work() -> str:
            """natural
            Return what <begin> gives.
            """
            return ""

        @nh.natural_function
        async def unready() -> None:
            """natural
            Look at <missing>.
            """

        answer = model_response(tool_call("nh_outcome", kind="return", return_expression="await begin()"))
        async with nh.run(forgetful(answer)):
            for _ in range(5):
                await work()
            assert len(nh.transcript()) == 1
            with pytest.raises(NameError):
                await unready()
            await wait_until_alive(before)
        task_group.cancel_scope.cancel()


async def test_a_task_does_not_see_the_last_step_of_the_one_that_started_it() -> None:
    async def child() -> None:
        with pytest.raises(TranscriptError, match="No step has ended in this task"):
            nh.transcript()
        await triage("of the child")
        assert "of the child" in str(nh.transcript())

    async with nh.run(forgetful(setting("order"))):
        await triage("of the parent")
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(child)
            task_group.start_soon(child)
        assert "of the parent" in str(nh.transcript())


# ---- trimming


FOUR = made_of(OPENING, *turn(1), *turn(2), *turn(3, user="heed this"), *turn(4))


async def test_slices_keep_calls_and_results_together_and_the_program() -> None:
    assert FOUR[:-1].messages == (OPENING, *turn(1), *turn(2), *turn(3, user="heed this"))
    assert FOUR[-2:].messages == (OPENING, *turn(3, user="heed this"), *turn(4))
    assert FOUR[:2].messages == (OPENING, *turn(1), *turn(2))
    assert FOUR[:0].messages == (OPENING,)
    assert FOUR[:] == FOUR
    assert len(FOUR) == 4


async def test_what_came_after_a_pause_stays_with_the_response_before_it() -> None:
    paused, rest, last = (AssistantMessage(text=text) for text in ("I search.", "Found.", "Done."))
    messages = (UserMessage(content=("Go.",)), paused, rest, UserMessage(content=("And?",)), last)
    whole = nh.Transcript(step_id="module:1", model="a:b", system_prompt="", messages=messages)
    assert len(whole) == 2
    assert whole[:1].messages == messages[:3]
    assert whole.trimmed(turns=2) == whole
    assert whole.trimmed(turns=1).messages == (messages[0], *messages[3:])
    assert "model, turn 2" in str(whole)
    assert "turn 3" not in str(whole)


async def test_the_last_turns_are_kept_by_number() -> None:
    assert FOUR.trimmed(turns=1).messages == (OPENING, *turn(4))
    assert FOUR.trimmed(turns=0).messages == (OPENING,)
    assert FOUR.trimmed(turns=9) == FOUR
    with pytest.raises(ValueError, match="turns must be at least 0, not -1"):
        FOUR.trimmed(turns=-1)


async def test_the_end_of_a_trimmed_transcript_is_no_outcome() -> None:
    assert FOUR[:-1].outcome is None
    assert FOUR[1:].outcome == "pass"
    assert FOUR.trimmed(turns=0).outcome is None
    assert made_of(OPENING)[:].outcome == "pass"


@pytest.mark.parametrize("index", [0, slice(0, 4, 2), slice(None, None, -1), "turn"], ids=str)
async def test_only_neighbouring_turns_can_be_kept(index: object) -> None:
    with pytest.raises(TypeError, match="takes a slice of turns"):
        FOUR[index]  # type: ignore[index]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        pytest.param([OPENING, turn(1)[0]], "the last message has calls without results", id="no result"),
        pytest.param([OPENING, turn(1)[1]], r"messages\[1\] must hold the results", id="no call"),
        pytest.param([turn(1)[0], turn(2)[1]], r"messages\[1\] must hold the results", id="another call"),
        pytest.param([turn(1)[0], OPENING], r"messages\[1\] must hold the results", id="something between"),
        pytest.param(["text"], r"messages\[0\] is no message", id="a text"),
    ],
)
async def test_a_transcript_with_torn_pairs_is_refused(messages: list[Message], problem: str) -> None:
    with pytest.raises(TranscriptError, match=problem):
        made_of(*messages)


def test_transcripts_are_pickled_and_copied() -> None:
    assert pickle.loads(pickle.dumps(FOUR)) == copy.deepcopy(FOUR) == FOUR


# ---- text


async def test_the_text_shows_who_said_what() -> None:
    image = nh.BinaryContent(data=b"123", media_type="image/png")
    failed = ToolResult(call_id="call 1", name="look", content=("no such file",), is_error=True)
    shown = made_of(
        UserMessage(content=("the program", image)),
        AssistantMessage(text="I look.", reasoning="Where?", tool_calls=turn(1)[0].tool_calls),  # type: ignore[union-attr]
        ToolResultsMessage(results=(failed,)),
    )
    assert str(shown).split("\n\n") == [
        "step shop:1 · scripted:model · 1 turn · 0 tokens · pass",
        "── system\nWork.",
        "── user\nthe program\n[image image/png, 3 bytes]",
        "── model, turn 1\n(reasoning) Where?\nI look.\n→ look {}",
        "── results\n✗ look no such file",
    ]
    assert repr(shown) == "<Transcript of 'shop:1', model='scripted:model', turns=1, outcome='pass'>"


async def test_long_texts_are_shown_in_part() -> None:
    shown = made_of(UserMessage(content=("a" * 50 + "b" * 50,)))
    assert "aaaaa … 90 characters … bbbbb" in shown.show(max_characters=10)
    assert "a" * 50 + "b" * 50 in shown.show(max_characters=None)
    with pytest.raises(ValueError, match="max_characters must be at least 0 or None, not -1"):
        shown.show(max_characters=-1)
