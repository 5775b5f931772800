"""The values of steps while answers stream: callbacks, hooks, iterators and the tree."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.observe import TaskTree
from nighthawk_async.testing import CallbackExecutor, ScriptedModel, StepCall, model_response, pass_response

pytestmark = [pytest.mark.anyio]


_PASSES = 20
"""In so many turns of the event loop every listener has done what it does."""


class Item(BaseModel):
    name: str


ANSWER: dict[str, Any] = {
    "kind": "pass",
    "bindings": {"items": [{"name": "lamp"}, {"name": "bed"}], "note": "All in stock."},
}


def fragments_of(answer: object, size: int = 8) -> list[str]:
    text = json.dumps(answer)
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


class StreamingModel:
    """Answers each request with a call of `nh_outcome` in fragments; listeners have turns in between."""

    name = "scripted:streaming"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self, *answers: object, waits: bool = True) -> None:
        self.answers = list(answers)
        self.fragments_sent = 0
        self._waits = waits

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        yield self._events(self.answers.pop(0))

    async def _events(self, answer: object) -> AsyncIterator[nh.models.ModelEvent]:
        yield nh.models.ToolCallStarted(index=0, id="1", name="nh_outcome")
        for fragment in fragments_of(answer):
            for _ in range(_PASSES if self._waits else 1):
                await checkpoint()
            self.fragments_sent += 1
            yield nh.models.ToolCallArgumentsDelta(index=0, fragment=fragment)
        call = nh.models.ToolCall(id="1", name="nh_outcome", arguments=json.dumps(answer))
        yield nh.models.ToolCallCompleted(index=0, call=call)
        yield nh.models.ResponseFinished(reason="tool_calls")


def executor(*answers: object, waits: bool = True, **fields: Any) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(
        model=StreamingModel(*answers, waits=waits), configuration=nh.StepExecutorConfiguration(**fields)
    )


@nh.natural_function
async def order(text: str) -> tuple[list[Item], str]:
    items: list[Item]
    note: str
    """natural
    Read the <:items> that <text> orders, and write a <:note> about them.
    """
    return items, note


COMMITTED = {"items": [Item(name="lamp"), Item(name="bed")], "note": "All in stock."}


def check_series(partials: Sequence[nh.PartialValues], final: dict[str, Any]) -> None:
    """They grow, belong to one step, and the last ones are what is committed."""
    *before, last = partials
    assert before
    assert (last.values, last.is_final) == (final, True)
    assert not any(each.is_final for each in before)
    assert len({each.execution_ref.execution_id for each in partials}) == 1
    assert {each.attempt for each in partials} == {1}
    notes = [each.values.get("note", "") for each in partials]
    assert all(later.startswith(earlier) for earlier, later in pairwise(notes))


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_callback_gets_the_values_and_at_last_those_that_are_committed(kind: str) -> None:
    partials: list[nh.PartialValues] = []

    async def later(partial: nh.PartialValues) -> None:
        await checkpoint()
        partials.append(partial)

    @nh.natural_function(on_partial=partials.append if kind == "def" else later)
    async def read(text: str) -> tuple[list[Item], str]:
        items: list[Item]
        note: str
        """natural
        Read the <:items> that <text> orders, and write a <:note> about them.
        """
        return items, note

    async with nh.run(executor(ANSWER)):
        assert await read("a lamp and a bed") == tuple(COMMITTED.values())
    check_series(partials, COMMITTED)
    assert [Item(name="lamp")] in [each.values.get("items") for each in partials]
    assert "All in" in [each.values.get("note", "")[:6] for each in partials[:-1]]


async def test_a_callback_that_decorates_a_method_and_a_generator_gets_each_block() -> None:
    partials: list[nh.PartialValues] = []

    class Shop:
        @nh.natural_function(on_partial=partials.append)
        async def words(self) -> AsyncGenerator[str, None]:
            for _ in range(2):
                word: str
                """natural
                Think of a <:word>.
                """
                yield word

    answers = [{"kind": "pass", "bindings": {"word": word}} for word in ("one", "two")]
    async with nh.run(executor(*answers)):
        assert [word async for word in Shop().words()] == ["one", "two"]
    assert [each.values for each in partials if each.is_final] == [{"word": "one"}, {"word": "two"}]
    assert len({each.execution_ref.execution_id for each in partials}) == 2


async def test_the_return_value_is_shown_as_return() -> None:
    partials: list[nh.PartialValues] = []

    @nh.natural_function(on_partial=partials.append)
    async def title(text: str) -> str:
        """natural
        Return a title for <text>.
        """

    async with nh.run(executor({"kind": "return", "return_value": "The lamp and the bed"})):
        assert await title("…") == "The lamp and the bed"
    assert partials[-1].values == {"return": "The lamp and the bed"}
    assert len(partials) > 2


async def test_a_hook_looks_on_and_several_listeners_get_the_same() -> None:
    hooks, heard = nh.Hooks(), list[nh.PartialValues]()

    @hooks.on(nh.PartialValues)
    async def listen(partial: nh.PartialValues) -> None:
        heard.append(partial)

    async with (
        nh.run(executor(ANSWER), hooks=hooks),
        anyio.create_task_group() as tasks,
        nh.partial_values() as partials,
    ):
        collected: list[nh.PartialValues] = []
        tasks.start_soon(collect, partials, collected)
        await order("…")
    check_series(heard, COMMITTED)
    assert collected == heard


async def collect(partials: AsyncIterator[nh.PartialValues], collected: list[nh.PartialValues]) -> None:
    async for partial in partials:
        collected.append(partial)


async def test_an_iterator_made_in_a_hook_ends_with_the_step() -> None:
    hooks = nh.Hooks()
    seen: list[list[nh.PartialValues]] = []

    async def show(partials: Any) -> None:
        async with partials:
            collected: list[nh.PartialValues] = []
            seen.append(collected)
            await collect(partials, collected)

    async with nh.run(executor(ANSWER, ANSWER), hooks=hooks), anyio.create_task_group() as tasks:

        @hooks.on(nh.hooks.StepStarted)
        def begin(event: nh.hooks.StepStarted) -> None:
            tasks.start_soon(show, nh.partial_values())

        await order("first")
        await order("second")
        late: list[nh.PartialValues] = []
    for each in seen:
        check_series(each, COMMITTED)
    assert len(seen) == 2
    assert late == []


async def test_an_iterator_made_in_a_tool_gets_what_comes_after() -> None:
    collected: list[nh.PartialValues] = []

    async with anyio.create_task_group() as tasks:

        async def listen() -> None:
            async with nh.partial_values() as partials:
                await collect(partials, collected)

        def begin() -> None:
            tasks.start_soon(listen)

        @nh.natural_function
        async def measure() -> int:
            size: int
            """natural
            Call <begin> and set <:size>.
            """
            return size

        model = ScriptedModel(
            [
                model_response(
                    nh.models.ToolCall(id="1", name="nh_eval", arguments='{"expression": "begin()"}')
                ),
                model_response(
                    nh.models.ToolCall(
                        id="2", name="nh_outcome", arguments='{"kind": "pass", "bindings": {"size": 3}}'
                    )
                ),
            ]
        )
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            assert await measure() == 3
    assert [(each.values, each.is_final) for each in collected][-1] == ({"size": 3}, True)


async def test_an_iterator_of_a_step_that_has_ended_gives_its_last_values() -> None:
    hooks, made = nh.Hooks(), list[Any]()
    hooks.on(nh.hooks.StepStarted, lambda _: made.append(nh.partial_values()))
    hooks.on(nh.PartialValues, lambda _: None)
    async with nh.run(executor(ANSWER), hooks=hooks):
        await order("…")
        async with made[0] as partials:
            assert [each.values async for each in partials] == [COMMITTED]


async def test_an_iterator_that_is_read_late_has_the_last_values_of_each_step() -> None:
    async with nh.run(executor(ANSWER, ANSWER)):
        async with nh.partial_values() as partials:
            await order("first")
            await order("second")
        assert [(each.values, each.is_final) async for each in partials] == [(COMMITTED, True)] * 2


async def test_an_iterator_is_entered_once_and_only_in_a_run() -> None:
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        nh.partial_values()
    async with nh.run(executor()):
        partials = nh.partial_values()
        with pytest.raises(nh.NighthawkError, match="async with"):
            await anext(partials)
        async with partials:
            pass
        with pytest.raises(nh.NighthawkError, match="once"):
            await partials.__aenter__()


async def test_an_answer_that_is_refused_is_followed_by_another_series() -> None:
    partials: list[nh.PartialValues] = []

    @nh.natural_function(on_partial=partials.append)
    async def rate(text: str) -> Literal["good", "bad"]:
        mark: Literal["good", "bad"]
        why: str
        """natural
        Give <text> a <:mark>, and say <:why>.
        """
        assert why
        return mark

    wrong = {"kind": "pass", "bindings": {"why": "It is fine.", "mark": "fine"}}
    right = {"kind": "pass", "bindings": {"why": "It is good.", "mark": "good"}}
    async with nh.run(executor(wrong, right)):
        assert await rate("…") == "good"
    first = [each.values for each in partials if each.attempt == 1]
    assert first[-1] == {"why": "It is fine."}
    second = [each for each in partials if each.attempt == 2]
    assert second[0].values != first[-1]
    assert (second[-1].values, second[-1].is_final) == ({"mark": "good", "why": "It is good."}, True)
    assert len(first) + len(second) == len(partials)


async def test_the_last_values_are_those_that_oversight_has_rewritten() -> None:
    class Auditor:
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
            return nh.oversight.Accept()

        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Rewrite:
            return nh.oversight.Rewrite(values={**commit.bindings, "note": "Checked."})

    async with nh.run(executor(ANSWER)), nh.scope(oversight=Auditor()):
        async with nh.partial_values() as partials:
            assert (await order("…"))[1] == "Checked."
        assert [each.values["note"] async for each in partials] == ["Checked."]


async def test_values_that_no_stream_gave_come_once() -> None:
    def answer(call: StepCall) -> Any:
        return pass_response(items=[Item(name="lamp")], note="one")

    async with nh.run(CallbackExecutor(answer)):
        async with nh.partial_values() as partials:
            await order("…")
        assert [(each.values, each.is_final, each.attempt) async for each in partials] == [
            ({"items": [Item(name="lamp")], "note": "one"}, True, 1)
        ]


@pytest.mark.parametrize("place", ["callback", "hook"])
async def test_who_fails_fails_the_step_before_it_commits(place: str) -> None:
    calls = 0
    errors: list[nh.errors.HookError] = []

    def fail(partial: nh.PartialValues) -> None:
        nonlocal calls
        calls += 1
        raise ZeroDivisionError("no")

    hooks = nh.Hooks()
    if place == "hook":
        hooks.on(nh.PartialValues, fail)

    @nh.natural_function(on_partial=fail if place == "callback" else None)
    async def read(text: str) -> str:
        note = "before"
        try:
            """natural
            Write a <:note> about <text>.
            """
        except nh.errors.HookError as error:
            errors.append(error)
        return note

    used = executor(ANSWER | {"bindings": {"note": "after " * 50}})
    async with nh.run(used, hooks=hooks):
        assert await read("…") == "before"
    assert calls == 1
    (error,) = errors
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "fail failed at PartialValues" in str(error)
    model = used.model
    assert isinstance(model, StreamingModel)
    assert model.fragments_sent < 10


async def test_a_slow_callback_gets_the_latest_values_and_holds_no_fragment_up() -> None:
    partials: list[nh.PartialValues] = []
    has_streamed = anyio.Event()

    async def slow(partial: nh.PartialValues) -> None:
        partials.append(partial)
        await has_streamed.wait()

    @nh.natural_function(on_partial=slow)
    async def write() -> str:
        note: str
        """natural
        Write a <:note>.
        """
        return note

    answer = {"kind": "pass", "bindings": {"note": "x" * 2_000}}
    model = StreamingModel(answer)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)), anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        while model.fragments_sent < len(fragments_of(answer)):
            await checkpoint()
        assert len(partials) == 1
        has_streamed.set()
    assert len(partials) <= 3  # the first ones, maybe the whole answer before it was committed, and the last
    assert (partials[-1].values, partials[-1].is_final) == ({"note": "x" * 2_000}, True)


async def test_cancelling_the_step_ends_the_callback_and_the_iterators() -> None:
    has_been_called = anyio.Event()
    ended: list[str] = []

    async def wait_forever(partial: nh.PartialValues) -> None:
        has_been_called.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("callback")

    @nh.natural_function(on_partial=wait_forever)
    async def write() -> str:
        note: str
        """natural
        Write a <:note>.
        """
        return note

    hooks = nh.Hooks()

    async def show(partials: Any) -> None:
        async with partials:
            await collect(partials, [])
        ended.append("iterator")

    async with (
        nh.run(executor({"kind": "pass", "bindings": {"note": "x" * 100}}, waits=False), hooks=hooks),
        anyio.create_task_group() as tasks,
    ):

        @hooks.on(nh.hooks.StepStarted)
        def begin(event: nh.hooks.StepStarted) -> None:
            tasks.start_soon(show, nh.partial_values())

        async with anyio.create_task_group() as steps:
            steps.start_soon(write)
            await has_been_called.wait()
            steps.cancel_scope.cancel()
    assert ended == ["callback", "iterator"]


async def test_a_callback_is_called_for_the_blocks_of_its_own_function_alone() -> None:
    partials: list[nh.PartialValues] = []

    @nh.natural_function
    async def inner() -> str:
        word: str
        """natural
        Think of a <:word>.
        """
        return word

    @nh.natural_function(on_partial=partials.append)
    async def outer() -> str:
        result: str
        """natural
        Set <:result> to what <inner> gives.
        """
        return result

    model = ScriptedModel(
        [
            model_response(
                nh.models.ToolCall(
                    id="1",
                    name="nh_assign",
                    arguments='{"target_path": "result", "expression": "await inner()"}',
                )
            ),
            model_response(
                nh.models.ToolCall(
                    id="2", name="nh_outcome", arguments='{"kind": "pass", "bindings": {"word": "lamp"}}'
                )
            ),
            model_response(nh.models.ToolCall(id="3", name="nh_outcome", arguments='{"kind": "pass"}')),
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await outer() == "lamp"
    assert [(each.values, each.is_final) for each in partials] == [({"result": "lamp"}, True)]


async def test_a_callback_may_call_its_own_function() -> None:
    numbers: list[int] = []

    async def count(partial: nh.PartialValues) -> None:
        if partial.is_final and not numbers:
            numbers.append(0)
            numbers.append(await number())

    @nh.natural_function(on_partial=count)
    async def number() -> int:
        value: int
        """natural
        Think of a <:value>.
        """
        return value

    answers = [{"kind": "pass", "bindings": {"value": value}} for value in (1, 2)]
    async with nh.run(executor(*answers, waits=False)):
        assert await number() == 1
    assert numbers == [0, 2]


def test_a_synchronous_function_tells_its_callback_too() -> None:
    partials: list[nh.PartialValues] = []

    @nh.natural_function(on_partial=partials.append)
    def word() -> str:
        word: str
        """natural
        Think of a <:word>.
        """
        return word

    with nh.run(executor({"kind": "pass", "bindings": {"word": "lamp"}}, waits=False)):
        assert word() == "lamp"
    assert (partials[-1].values, partials[-1].is_final) == ({"word": "lamp"}, True)
    assert len(partials) > 1


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(nh.NighthawkError, match="on_partial is a function of PartialValues, not 3"):
        nh.natural_function(on_partial=3)  # type: ignore[arg-type]


async def test_a_step_without_listeners_has_nothing_to_tell() -> None:
    steps: list[object] = []

    def look() -> None:
        from nighthawk_async.kernel.environment import get_current_step

        steps.append(get_current_step().partial_listeners)

    @nh.natural_function
    async def measure() -> int:
        size: int
        """natural
        Call <look> and set <:size>.
        """
        return size

    arguments = '{"kind": "pass", "bindings": {"size": 3}}'
    model = ScriptedModel(
        [
            model_response(nh.models.ToolCall(id="1", name="nh_eval", arguments='{"expression": "look()"}')),
            model_response(nh.models.ToolCall(id="2", name="nh_outcome", arguments=arguments)),
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await measure() == 3
    assert steps == [None]


async def test_a_tree_that_is_watched_shows_the_outputs_so_far() -> None:
    shown: list[str] = []
    tree = TaskTree()
    is_whole = anyio.Event()

    async def watch() -> None:
        async with tree.watch(min_interval=0) as views:
            async for view in views:
                step = next((each for each in view.walk() if each.kind == "step"), None)
                if step is not None and (not shown or shown[-1] != step.outputs.get("note", "")):
                    shown.append(step.outputs.get("note", ""))
                    if shown[-1] == '"All in stock."':
                        is_whole.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        with tree.recording():
            async with nh.run(executor(ANSWER)):
                await order("…")
        await is_whole.wait()
        tasks.cancel_scope.cancel()
    assert len(shown) > 1  # the pace of views leaves some out
    assert all(shown[-1].startswith(each.removesuffix('"')) for each in shown)


async def test_a_tree_that_nobody_watches_shows_the_outputs_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nighthawk_async.agent.partial_answer.from_json", pytest.fail)
    tree = TaskTree()
    with tree.recording():
        async with nh.run(executor(ANSWER, waits=False)):
            await order("…")
    step = next(each for each in tree.snapshot().walk() if each.kind == "step")
    assert step.outputs["note"] == '"All in stock."'


async def test_a_callback_does_not_make_a_tree_render_values_that_nobody_watches() -> None:
    tree = TaskTree()
    shown: list[object] = []

    def look(partial: nh.PartialValues) -> None:
        shown.extend(view.outputs for view in tree.snapshot().walk() if view.kind == "step")

    @nh.natural_function(on_partial=look)
    async def write() -> str:
        note: str
        """natural
        Write a <:note>.
        """
        return note

    with tree.recording():
        async with nh.run(executor({"kind": "pass", "bindings": {"note": "All in stock, sent today."}})):
            await write()
    assert len(shown) > 2
    assert not any(shown)


class SmallModel:
    """Answers each question with a text, after listeners had their turns."""

    name = "scripted:small"
    capabilities = nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False)

    def __init__(self, *texts: str) -> None:
        self._model = ScriptedModel([model_response(text=text) for text in texts])

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        for _ in range(_PASSES):
            await checkpoint()
        async with self._model.stream(request) as events:
            yield events


async def test_a_small_model_gives_the_values_answer_by_answer() -> None:
    partials: list[nh.PartialValues] = []

    @nh.natural_function(on_partial=partials.append)
    async def judge(text: str) -> tuple[str, str]:
        label: Literal["good", "bad"]
        mood: Literal["calm", "angry"]
        """natural
        Set <:label> and <:mood> for <text>.
        """
        return label, mood

    model = SmallModel('{"label": "good"}', '{"mood": "angry"}')
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await judge("Well. Hm!") == ("good", "angry")
    committed = {"label": "good", "mood": "angry"}
    shown = [(each.attempt, dict(each.values), each.is_final) for each in partials]
    assert shown[0] == (1, {"label": "good"}, False)
    assert shown[-1] == (1, committed, True)


async def test_a_small_model_that_is_asked_anew_begins_another_attempt() -> None:
    partials: list[nh.PartialValues] = []

    @nh.natural_function(
        on_partial=partials.append,
        verify=lambda proposal: proposal.bindings["label"] == "good" or "Look again.",
    )
    async def judge(text: str) -> tuple[str, str]:
        label: Literal["good", "bad"]
        mood: Literal["calm", "angry"]
        """natural
        Set <:label> and <:mood> for <text>.
        """
        return label, mood

    model = SmallModel('{"label": "bad"}', '{"mood": "calm"}', '{"label": "good"}', '{"mood": "calm"}')
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await judge("Well.") == ("good", "calm")
    shown = [(each.attempt, dict(each.values), each.is_final) for each in partials]
    assert shown[0] == (1, {"label": "bad"}, False)
    assert (2, {"label": "good"}, False) in shown
    assert shown[-1] == (2, {"label": "good", "mood": "calm"}, True)
