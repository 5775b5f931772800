"""Steps with Claude Code: the real one, where it is installed, and a program that behaves like it."""

import contextlib
import dataclasses
import json
import pickle
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psutil
import pytest
from anyio.abc import TaskGroup

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply
from nighthawk_async.testing.model_reply import RecordedRequest
from nighthawk_async.types.messages import AssistantMessage, BinaryContent, UploadedFile
from tests.unit.mcp.support import processes

from .claude_code import Claude, Kind, call, nh_call, reply

pytestmark = pytest.mark.anyio
OUTCOME = nh_call("nh_outcome", kind="pass")


@pytest.fixture(params=["fake", "real"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@nh.natural_function
async def add(a: int, b: int) -> int:
    """natural
    Set <:result> to the sum of <a> and <b>.
    """
    return result  # type: ignore


def assigned(expression: str) -> ModelReply:
    return reply(nh_call("nh_assign", target_path="result", expression=expression), OUTCOME)


async def test_a_step_costs_one_request_and_leaves_no_process(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [assigned("a + b")])
    async with claude.serving(), nh.run(claude.configuration()) as run:
        assert await add(1, 2) == 3
        usage = run.usage_meter.usage
    assert len(claude.requests) == 1
    assert (usage.input_tokens, usage.output_tokens, usage.requests) == (100, 20, 1)
    assert usage.cost > 0
    assert processes() == []
    body = claude.requests[0].body
    assert {tool["name"] for tool in body["tools"]} == {
        f"mcp__nighthawk__{name}" for name in ("nh_eval", "nh_assign", "nh_exec", "nh_outcome")
    }
    assert "Set <:result> to the sum of <a> and <b>." in claude.sent(0)
    assert "mcp__nighthawk__nh_outcome" in json.dumps(body["system"])


async def test_calls_of_one_response_reach_the_step_in_their_order(kind: Kind, tmp_path: Path) -> None:
    seen: list[int] = []

    async def note(number: int) -> int:
        await anyio.sleep(0.02 * (4 - number))
        seen.append(number)
        return number

    @nh.natural_function
    async def count() -> None:
        """natural
        Call <note> with 0 to 3.
        """
        await anyio.lowlevel.checkpoint()

    expressions = [f"(order.append({number}), note({number}))[1]" for number in range(4)]
    order: list[int] = []
    calls = [nh_call("nh_eval", expression=each) for each in expressions]
    claude = Claude(kind, tmp_path, [reply(*calls), reply(OUTCOME)])
    async with (
        claude.serving(),
        nh.run(claude.configuration()),
        nh.scope(implicit_references={"order": order, "note": note}),
    ):
        await count()
    assert order == [0, 1, 2, 3]
    assert sorted(seen) == [0, 1, 2, 3]
    messages = json.loads(claude.sent(1))["messages"]
    blocks = [block for each in messages for block in each["content"] if isinstance(block, dict)]
    uses = {block["id"]: block["input"]["expression"] for block in blocks if block["type"] == "tool_use"}
    # Claude Code sends results in the order in which they end.
    results = {
        uses[block["tool_use_id"]]: block["content"][0]["text"]
        for block in blocks
        if block["type"] == "tool_result"
    }
    assert results == {
        each: f'{{"value": {number}, "error": null}}' for number, each in enumerate(expressions)
    }


async def test_a_refused_outcome_comes_back_and_is_given_again(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(
        kind,
        tmp_path,
        [
            reply(nh_call("nh_outcome", kind="pass", bindings={"result": "three"})),
            reply(text="I am done."),
            assigned("3"),
        ],
    )

    @nh.natural_function
    async def strict() -> int:
        result: int = nh.unset
        """natural
        Set <:result> to three.
        """
        return result

    async with claude.serving(), nh.run(claude.configuration()) as run:
        assert await strict() == 3
        assert run.usage_meter.usage.requests == 3
    assert "bindings.result" in claude.sent(1)
    assert "end the block by calling nh_outcome" in claude.sent(2)


async def test_corrections_and_turns_are_limited(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, lambda request: reply(text="I am done."))
    async with claude.serving():
        async with nh.run(claude.configuration(max_corrective_turns=1)):
            with pytest.raises(nh.ExecutionError, match="no acceptable outcome after 1 corrections"):
                await add(1, 2)
        assert len(claude.requests) == 2
        claude = Claude(kind, tmp_path, lambda request: reply(nh_call("nh_eval", expression="a")))
    async with claude.serving():
        async with nh.run(claude.configuration(max_turns=2)):
            with pytest.raises(nh.errors.StepLimitError, match="no outcome after 2 model requests"):
                await add(1, 2)
        assert len(claude.requests) == 2
        async with nh.run(claude.configuration(max_tool_calls=1)):
            with pytest.raises(nh.errors.StepLimitError, match="no outcome after 1 tool calls"):
                await add(1, 2)
    assert processes() == []


async def test_tools_of_the_program_and_found_tools_are_called(kind: Kind, tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """Return the weather of a city."""
        return f"sunny in {city}"

    replies = [
        reply(nh_call("nh_find_tools", query="weather of a city")),
        reply(nh_call("weather", city="Bern")),
        assigned("1"),
    ]
    claude = Claude(kind, tmp_path, replies)
    tools = [nh.tool_set([weather], deferred=True)]
    async with claude.serving(), nh.run(claude.configuration(), tools=tools):
        assert await add(1, 2) == 1
    offered = [{tool["name"] for tool in request.body["tools"]} for request in claude.requests]
    assert "mcp__nighthawk__weather" not in offered[0]
    assert "mcp__nighthawk__weather" in offered[1]
    assert "sunny in Bern" in claude.sent(2)


async def test_a_message_reaches_the_running_agent(kind: Kind, tmp_path: Path) -> None:
    @nh.natural_function
    async def work() -> int:
        """natural
        Call <steer>, then set <:result> to 1.
        """
        return result  # type: ignore

    def steer() -> None:
        nh.get_current_step_actor().steer("Hurry up!")

    claude = Claude(kind, tmp_path, [reply(nh_call("nh_eval", expression="steer()")), assigned("1")])
    async with (
        claude.serving(),
        nh.run(claude.configuration()),
        nh.scope(implicit_references={"steer": steer}),
    ):
        assert await work() == 1
    assert "Hurry up!" in claude.sent(1)


async def test_a_message_that_arrives_with_the_outcome_holds_it_back(kind: Kind, tmp_path: Path) -> None:
    def steer() -> int:
        nh.get_current_step_actor().steer("One more thing.")
        return 1

    claude = Claude(kind, tmp_path, [assigned("steer()"), assigned("2")])
    async with (
        claude.serving(),
        nh.run(claude.configuration()),
        nh.scope(implicit_references={"steer": steer}),
    ):
        assert await add(1, 2) == 2
    assert "One more thing." in claude.sent(1)
    assert "not accepted yet: a message for you arrived meanwhile" in claude.sent(1)


async def test_a_budget_is_held_before_the_next_turn(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, lambda request: reply(nh_call("nh_eval", expression="a")))
    async with claude.serving(), nh.run(claude.configuration()):
        with nh.budget(tokens=200), pytest.raises(nh.BudgetExceededError):
            await add(1, 2)
        assert len(claude.requests) == 2
        with nh.budget(cost=0.0001), pytest.raises(nh.BudgetExceededError):
            await add(1, 2)
        assert len(claude.requests) == 3
    assert processes() == []


async def test_a_cancelled_step_ends_its_processes_and_the_next_one_works(kind: Kind, tmp_path: Path) -> None:
    started = anyio.Event()

    async def answer_later(request: RecordedRequest) -> ModelReply:
        if len(claude.requests) > 1:
            return assigned("a + b")
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    claude = Claude(kind, tmp_path, answer_later)
    async with claude.serving(), nh.run(claude.configuration()):
        async with anyio.create_task_group() as group:
            group.start_soon(add, 1, 2)
            await started.wait()
            assert len(processes()) >= 1
            group.cancel_scope.cancel()
        assert processes() == []
        assert await add(1, 2) == 3
    assert processes() == []


async def test_five_steps_at_once(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, lambda request: assigned("a + b"))

    async def add_ten(number: int) -> int:
        return await add(number, 10)

    async with claude.serving(), nh.run(claude.configuration()):
        assert await nh.parallel.map(add_ten, range(5), max_concurrent=5) == [10, 11, 12, 13, 14]
        assert await add(1, 1) == 2
    assert len(claude.requests) == 6
    assert processes() == []


async def test_text_reasoning_and_calls_are_in_the_tree(kind: Kind, tmp_path: Path) -> None:
    first = reply(nh_call("nh_eval", expression="a"), text="Let me see.", reasoning="Simple.")
    claude = Claude(kind, tmp_path, [first, assigned("a + b")])
    with nh.observe.recording() as tree:
        async with claude.serving(), nh.run(claude.configuration()):
            assert await add(1, 2) == 3
    nodes = [each for each in tree.snapshot().walk() if each.kind in ("model_request", "tool_call")]
    assert [each.name for each in nodes] == [
        "claude-code-cli:sonnet",
        "nh_eval",
        "claude-code-cli:sonnet",
        "nh_assign",
    ]
    assert [each.state for each in nodes] == ["completed"] * 4
    parts = {part.kind: part.text for part in nodes[0].transcript}
    assert (parts["text"], parts["reasoning"]) == ("Let me see.", "Simple.")
    step = next(each for each in tree.snapshot().walk() if each.kind == "step")
    assert step.subtree_usage.input_tokens == 200


async def test_a_function_names_its_model(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [assigned("a + b")])

    @nh.natural_function(model="claude-code-sdk:default")
    async def with_own_model(a: int, b: int) -> int:
        """natural
        Set <:result> to the sum of <a> and <b>.
        """
        return result  # type: ignore

    async with claude.serving(), nh.run(claude.configuration()):
        assert await with_own_model(1, 2) == 3
    assert "opus" in claude.requests[0].body["model"] or kind == "fake"


async def test_a_conversation_is_continued_with_another_model(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(
        kind, tmp_path, [reply(nh_call("nh_eval", expression="a")), assigned("a + b"), assigned("7")]
    )
    async with claude.serving(), nh.run(claude.configuration()):
        assert await add(1, 2) == 3
        past = nh.transcript()
        with nh.scope(past=past):
            assert await add(1, 2) == 7
    assert [type(message).__name__ for message in past.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResultsMessage",
        "AssistantMessage",
        "ToolResultsMessage",
    ]
    assert "[called nh_eval with" in claude.sent(2)


BASH = {"native_tools": ("Bash",)}


def bash(command: str) -> ModelReply:
    return reply(call("Bash", command=command, description="x"))


async def test_a_native_call_is_denied_by_permissions(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [bash("touch denied"), bash("touch allowed"), assigned("1")])
    rules = nh.permissions(allow=nh.policies.rule("ClaudeCode.Bash", command="touch allowed"), default="deny")
    async with claude.serving(), nh.run(claude.configuration(settings=BASH), permissions=rules):
        assert await add(1, 2) == 1
    assert not (tmp_path / "denied").exists()
    assert (tmp_path / "allowed").exists()
    assert "ClaudeCode.Bash" in claude.sent(1)


async def test_a_native_call_is_approved_by_a_person(kind: Kind, tmp_path: Path) -> None:
    asked: list[Any] = []

    class Manager:
        async def approve(self, request: nh.human.ApprovalRequest) -> None:
            asked.append((request.action, dict(request.arguments)))
            if "yes" in str(request.arguments["command"]):
                request.approve("ada", digest=request.digest)
            else:
                request.deny("ada", "not today")

        async def ask(self, question: nh.human.Question) -> object:
            raise nh.errors.NoHumanError("no questions")

    claude = Claude(kind, tmp_path, [bash("touch yes"), bash("touch no"), assigned("1")])
    rules = nh.permissions(ask="ClaudeCode.*", default="allow")
    configuration = claude.configuration
    async with (
        claude.serving(),
        nh.run(configuration(settings=BASH), permissions=rules, human=Manager()),
    ):
        assert await add(1, 2) == 1
    assert "not today" in claude.sent(2)
    assert [(action, given["command"]) for action, given in asked] == [
        ("ClaudeCode.Bash", "touch yes"),
        ("ClaudeCode.Bash", "touch no"),
    ]
    assert (tmp_path / "yes").exists()
    assert not (tmp_path / "no").exists()


async def test_hooks_change_native_calls_and_their_results(kind: Kind, tmp_path: Path) -> None:
    hooks = nh.Hooks()
    seen: list[Any] = []

    def before(event: nh.hooks.BeforeToolCall) -> Any:
        if event.tool_name == "ClaudeCode.Bash":
            return nh.hooks.Modify({**event.arguments, "command": "echo xyzzy"})
        return None

    hooks.on(nh.hooks.BeforeToolCall, before)

    def after(event: nh.hooks.AfterToolCall) -> Any:
        if event.tool_name == "ClaudeCode.Bash":
            seen.append((event.content, event.is_error))
            return nh.hooks.Modify(("[removed]",))
        return None

    hooks.on(nh.hooks.AfterToolCall, after)
    claude = Claude(kind, tmp_path, [bash("echo harmless"), assigned("1")])
    with nh.observe.recording() as tree:
        async with claude.serving(), nh.run(claude.configuration(settings=BASH), hooks=hooks):
            assert await add(1, 2) == 1
    assert [(content[0].strip(), is_error) for content, is_error in seen] == [("xyzzy", False)]
    assert "xyzzy" not in claude.sent(1).replace("echo xyzzy", "")
    assert "[removed]" in claude.sent(1)
    node = next(each for each in tree.snapshot().walk() if each.name == "ClaudeCode.Bash")
    assert (node.kind, node.state) == ("tool_call", "completed")


async def test_a_native_call_that_fails_is_an_error_in_the_tree(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [bash("echo it broke >&2; exit 3"), assigned("1")])
    with nh.observe.recording() as tree:
        async with claude.serving(), nh.run(claude.configuration(settings=BASH)):
            assert await add(1, 2) == 1
    node = next(each for each in tree.snapshot().walk() if each.name == "ClaudeCode.Bash")
    assert node.state == "failed"
    assert "it broke" in str(node.error)


@pytest.mark.parametrize("end", ["cancelled", "killed", "finished"])
async def test_commands_of_the_agent_end_with_the_step(kind: Kind, tmp_path: Path, end: str) -> None:
    command = "sleep 1000 > started"
    if end == "finished":
        command = "setsid sleep 1000 > started 2>&1 < /dev/null &"
    claude = Claude(kind, tmp_path, [bash(command), assigned("1")])
    ended = {"killed": nh.executors.CodingAgentCrashedError}.get(end)

    async with claude.serving(), nh.run(claude.configuration(settings=BASH)):
        async with anyio.create_task_group() as group:
            with contextlib.nullcontext() if ended is None else pytest.raises(ended):
                if end == "finished":
                    assert await add(1, 2) == 1
                else:
                    group.start_soon(_end_when, (tmp_path / "started").exists, end, group)
                    await add(1, 2)
            group.cancel_scope.cancel()
        assert processes() == []
    assert (tmp_path / "started").exists()
    assert [each for each in psutil.process_iter(["cmdline"]) if _is_left(each, tmp_path)] == []


async def _end_when(condition: Callable[[], bool], end: str, group: TaskGroup) -> None:
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)
    if end == "cancelled":
        group.cancel_scope.cancel()
    else:
        next(each for each in processes() if "stream-json" in each.cmdline()).kill()


def _is_left(process: psutil.Process, folder: Path) -> bool:
    """Whether a process is one of the agent's: it works in its folder."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.cwd() == str(folder)
    except psutil.Error:
        return False


async def test_native_tools_that_are_not_listed_are_off(kind: Kind, tmp_path: Path) -> None:
    if kind == "fake":
        pytest.skip("the fake has one tool, which is always on")
    claude = Claude(kind, tmp_path, [bash("touch made"), assigned("1")])
    async with claude.serving(), nh.run(claude.configuration(settings={"native_tools": ("Read",)})):
        assert await add(1, 2) == 1
    assert not (tmp_path / "made").exists()
    names = {tool["name"] for tool in claude.requests[0].body["tools"]}
    assert {name for name in names if not name.startswith("mcp__nighthawk__")} == {"Read"}


async def test_a_refused_key_fails_at_once(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, lambda request: ModelReply(status=401))
    async with (
        claude.serving(),
        nh.run(claude.configuration(settings={"environment": {"CLAUDE_CODE_MAX_RETRIES": "10"}})),
    ):
        with pytest.raises(nh.executors.CodingAgentRequestError, match="401") as raised:
            await add(1, 2)
    assert raised.value.status == 401
    assert processes() == []


async def test_a_suspended_step_asks_its_model_no_more_until_it_is_resumed(
    kind: Kind, tmp_path: Path
) -> None:
    actors: list[Any] = []
    has_begun = anyio.Event()

    def suspend() -> None:
        actors.append(nh.get_current_step_actor())
        has_begun.set()
        actors[0].suspend()

    claude = Claude(kind, tmp_path, [reply(nh_call("nh_eval", expression="suspend()")), assigned("1")])
    async with (
        claude.serving(),
        nh.run(claude.configuration()),
        nh.scope(implicit_references={"suspend": suspend}),
        nh.open_tasks() as tasks,
    ):
        handle = tasks.start(add, 1, 2)
        await has_begun.wait()
        await actors[0].wait_suspended()
        assert len(claude.requests) == 1
        actors[0].resume("Go on.")
        assert await handle == 1
    assert "Go on." in claude.sent(1)


async def test_a_durable_run_takes_the_result_of_the_whole_step(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [reply(nh_call("nh_eval", expression="a")), assigned("a + b")])
    async with claude.serving():
        for _life in range(2):
            with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
                async with nh.run(claude.configuration(), journal=store, run_id="one"):
                    assert await add(1, 2) == 3
    assert len(claude.requests) == 2


async def test_an_executor_is_pickled_as_its_configuration(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [assigned("a + b")])
    async with claude.serving():
        executor = nh.AgentStepExecutor.from_configuration(claude.configuration())
        assert executor.agent_is_managed
        assert "fake" not in repr(executor.configuration)
        async with nh.run(pickle.loads(pickle.dumps(executor))):
            assert await add(1, 2) == 3


async def test_skills_of_the_scope_are_read(kind: Kind, tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "adding-numbers"
    folder.mkdir(parents=True)
    text = "---\nname: adding-numbers\ndescription: Adds.\n---\nCarry the one.\n"
    (folder / "SKILL.md").write_text(text)
    skills = nh.skills.load(tmp_path / "skills")
    claude = Claude(kind, tmp_path, [reply(nh_call("nh_skill", name="adding-numbers")), assigned("1")])
    async with claude.serving(), nh.run(claude.configuration(), skills=skills):
        assert await add(1, 2) == 1
    assert "Carry the one." in claude.sent(1)


async def test_a_limit_of_claude_code_is_named(kind: Kind, tmp_path: Path) -> None:
    if kind == "fake":
        pytest.skip("the fake has no limits of its own")
    claude = Claude(kind, tmp_path, lambda request: reply(nh_call("nh_eval", expression="a")))
    settings = {"max_budget_usd": 0.000_1}
    async with claude.serving(), nh.run(claude.configuration(settings=settings)):
        with pytest.raises(nh.executors.CodingAgentRequestError, match="max_budget_usd"):
            await add(1, 2)
    assert len(claude.requests) == 1


async def test_what_a_project_has_configured_stays_out_unless_asked_for(kind: Kind, tmp_path: Path) -> None:
    if kind == "fake":
        pytest.skip("the fake reads no files of settings")
    (tmp_path / "CLAUDE.md").write_text("Always say BANANA.")
    command = f"touch {tmp_path}/hooked"
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"other": {"command": "touch", "args": [f"{tmp_path}/served"]}}})
    )
    replies = [bash("true"), assigned("1"), bash("true"), assigned("1")]
    claude = Claude(kind, tmp_path, replies)
    async with claude.serving(), nh.run(claude.configuration(settings=BASH)):
        assert await add(1, 2) == 1
        assert "BANANA" not in claude.sent(0)
        assert not (tmp_path / "hooked").exists()
        asked_for = claude.configuration(settings={**BASH, "setting_sources": ("project",)})
        with nh.scope(step_executor_configuration=asked_for):
            assert await add(1, 2) == 1
    assert "BANANA" in claude.sent(2)
    assert (tmp_path / "hooked").exists()
    assert not (tmp_path / "served").exists()


async def test_media_that_cannot_be_sent_are_in_files_during_the_step(kind: Kind, tmp_path: Path) -> None:
    sound = BinaryContent(data=b"RIFF sound", media_type="audio/wav", identifier="../door bell")
    paths: list[str] = []

    @nh.natural_function
    async def listen(sound: BinaryContent) -> int:
        """natural
        Set <:result> to the number of rings in <sound>.
        """
        return result  # type: ignore

    def answer(request: RecordedRequest) -> ModelReply:
        found = re.findall(r"nighthawk-media-[\w./-]+", claude.sent(-1))
        paths.extend(f"{tempfile.gettempdir()}/{each}" for each in found)
        if len(claude.requests) == 1:
            return bash(f"cat '{paths[0]}'")
        return reply(nh_call("nh_eval", expression="sound")) if len(claude.requests) == 2 else assigned("3")

    claude = Claude(kind, tmp_path, answer)
    async with claude.serving(), nh.run(claude.configuration(settings=BASH)):
        assert await listen(sound) == 3
    assert "RIFF sound" in claude.sent(1)
    assert {Path(each).name for each in paths} == {"1-_door_bell.wav"}
    assert not Path(paths[0]).parent.exists()


async def test_a_file_that_was_uploaded_to_a_provider_is_refused(kind: Kind, tmp_path: Path) -> None:
    claude = Claude(kind, tmp_path, [assigned("1")])
    file = UploadedFile(file_id="file-1", provider_name="anthropic", media_type="application/pdf")

    @nh.natural_function
    async def read(file: UploadedFile) -> int:
        """natural
        Set <:result> to the number of pages of <file>.
        """
        return result  # type: ignore

    async with claude.serving(), nh.run(claude.configuration()):
        with pytest.raises(nh.errors.UnsupportedContentError, match=r"Claude Code cannot be sent .*file-1"):
            await read(file)
    assert claude.requests == []


async def test_agents_that_the_agent_starts_are_counted_and_held_by_budgets(
    kind: Kind, tmp_path: Path
) -> None:
    if kind == "fake":
        pytest.skip("the fake starts no agents")
    start = reply(call("Agent", description="help", prompt="Look.", subagent_type="general-purpose"))
    steered = "nh.get_current_step_actor().steer('Hurry up!')"
    work = reply(nh_call("nh_eval", expression=steered), nh_call("nh_outcome", kind="pass"))
    claude = Claude(kind, tmp_path, [start, work, reply(text="I looked."), assigned("1")])
    settings = {"native_tools": ("Agent",)}
    async with (
        claude.serving(),
        nh.run(claude.configuration(settings=settings)) as run,
        nh.scope(implicit_references={"nh": nh}),
    ):
        assert await add(1, 2) == 1
        usage = run.usage_meter.usage
    assert (usage.input_tokens, usage.output_tokens) == (400, 80)
    assert "only the agent that has the whole task can end it" in claude.sent(2)
    assert "Hurry up!" in claude.sent(3)

    claude = Claude(kind, tmp_path, [start, *[reply(nh_call("nh_eval", expression="a"))] * 9])
    async with claude.serving(), nh.run(claude.configuration(settings=settings)):
        with nh.budget(tokens=350), pytest.raises(nh.BudgetExceededError):
            await add(1, 2)
    assert len(claude.requests) == 4
    assert processes() == []


async def test_a_response_that_breaks_off_is_asked_for_again_or_transient(kind: Kind, tmp_path: Path) -> None:
    if kind == "fake":
        pytest.skip("the fake does not ask again")
    broken = dataclasses.replace(reply(text="I will add. " * 20), fault="broken_chunks", fault_after=4)
    claude = Claude(kind, tmp_path, [broken, reply(text="Hm."), assigned("1")])
    retries = {"environment": {"CLAUDE_CODE_MAX_RETRIES": "3"}}
    async with claude.serving(), nh.run(claude.configuration(settings=retries)):
        try:
            assert await add(1, 2) == 1
        except nh.executors.CodingAgentRequestError as error:
            if not error.is_transient:
                raise
            return  # by how far it has read, Claude Code may also give up at once
        messages = nh.transcript().messages
    texts = [each.text for each in messages if isinstance(each, AssistantMessage)]
    assert texts == ["Hm.", ""]


async def test_the_prompt_of_the_agent_is_kept_only_with_native_tools(kind: Kind, tmp_path: Path) -> None:
    if kind == "fake":
        pytest.skip("the fake has no prompt of its own")
    claude = Claude(kind, tmp_path, [assigned("1"), assigned("1")])
    async with claude.serving():
        for settings in ({}, BASH):
            async with nh.run(claude.configuration(settings=settings)):
                assert await add(1, 2) == 1
    alone, appended = (json.dumps(each.body["system"]) for each in claude.requests)
    for system in (alone, appended):
        assert "the block ends when you call `mcp__nighthawk__nh_outcome`" in system
    assert "# Doing tasks" not in alone
    assert len(appended) > len(alone) + 2_000
