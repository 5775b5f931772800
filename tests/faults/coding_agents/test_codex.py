"""Codex from npm, in the folder `NIGHTHAWK_NPM` or `.cache/npm`, against a model server on the loopback."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.executors import CodingAgentCrashedError, CodingAgentRequestError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from tests.faults.coding_agents.codex import (
    Scripted,
    call,
    calls,
    custom_call,
    custom_item,
    ends,
    executor,
    function_item,
    repository,
    results,
    several,
    texts,
)
from tests.npm_packages import LOOPBACK_ONLY
from tests.unit.mcp.support import processes, wait_until

__all__ = ["repository"]

pytestmark = pytest.mark.anyio
SCRIPTING = "gpt-6.2-sol"
"""A model that writes scripts which call tools."""
OUTCOME = "await tools.nh_outcome({kind: 'pass'});"
WRITES = {"sandbox": "workspace-write"}
PATCHING = "gpt-5.5"
"""A model that has a tool for patches."""


@pytest.fixture(autouse=True)
def _own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    caches = Path("/var/tmp") / f"nighthawk-tests-{os.getpid()}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    for name, value in LOOPBACK_ONLY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "home"))
    yield
    assert not processes()
    assert [*caches.glob("nighthawk_async/codex/*")] == []
    shutil.rmtree(caches, ignore_errors=True)


@nh.natural_function
async def work(note: Any = None, start: int = 1) -> int:
    number = start
    """natural
    Set <:number> to more than <start>; <note> takes notes.
    """
    return number


def command_lines() -> list[list[str]]:
    found: list[list[str]] = []
    for each in processes():
        with suppress(psutil.NoSuchProcess):  # or a zombie
            found.append(each.cmdline())
    return found


def usage_of(run: Any) -> Any:
    return run.usage_meter.usage


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def all_command_lines() -> list[list[str]]:
    found: list[list[str]] = []
    for each in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            found.append(each.cmdline())
    return found


def by_conversation(*rounds: ModelReply) -> Any:
    """A model for many steps at once: the n-th round answers the request with n-1 earlier responses."""

    def reply(request: RecordedRequest) -> ModelReply:
        return rounds[sum(each["type"] == "function_call" for each in request.body["input"]) and 1]

    return reply


async def test_a_step_calls_our_tools_in_order_and_sets_values() -> None:
    notes = list[int]()
    for _ in range(5):
        notes.clear()
        model = Scripted(
            calls(*(call("nh_eval", expression=f"note({number})") for number in range(6))),
            calls(
                call("nh_assign", target_path="number", expression="start + 1"),
                call("nh_outcome", kind="pass"),
            ),
        )
        async with ModelServer(model) as server, nh.run(executor(server)):
            assert await work(notes.append, 41) == 42
        assert notes == [0, 1, 2, 3, 4, 5]
        assert [each["name"] for each in model.requests[0].body["tools"]] == [
            "nh_eval",
            "nh_assign",
            "nh_exec",
            "nh_outcome",
        ]
    first = model.requests[0].body
    assert len(model.requests) == 2
    assert [each["role"] for each in first["input"]] == ["developer", "user"]


async def test_steps_of_a_run_share_one_process_and_run_in_parallel() -> None:
    model = by_conversation(
        calls(call("nh_eval", expression="note(start)")),
        calls(
            call("nh_assign", target_path="number", expression="start * 2"), call("nh_outcome", kind="pass")
        ),
    )
    notes = list[int]()
    servers = set[int]()

    def note(number: int) -> None:
        notes.append(number)
        servers.update(each.pid for each in psutil.Process().children())

    others = {each.pid for each in psutil.Process().children()}
    async with ModelServer(model) as server, nh.run(executor(server)) as run:
        assert await nh.parallel.map(lambda start: work(note, start), range(20)) == [2 * n for n in range(20)]
    assert sorted(notes) == [*range(20)]
    assert len(servers - others) == 1
    assert usage_of(run).requests == 40
    assert usage_of(run).input_tokens > 0


async def test_the_tree_shows_text_reasoning_calls_and_usage() -> None:
    model = Scripted(calls(call("nh_eval", expression="1 + 1"), text="I look.", reasoning="Hm."), ends())
    async with ModelServer(model) as server:
        with observe.recording() as tree:
            async with nh.run(executor(server)):
                await work()
    views = [*tree.snapshot().walk()]
    shown = "".join(segment.text for view in views for segment in view.transcript if segment.kind == "text")
    assert "I look." in shown
    assert any(view.kind == "tool_call" and view.name == "nh_eval" and view.outputs for view in views)
    (step,) = (view for view in views if view.kind == "step")
    assert step.usage.requests == 2


async def test_a_script_of_the_model_calls_our_tools() -> None:
    script = (
        "const all = await Promise.all([0,1,2].map(n => tools.nh_eval({expression: `note(${n})`})));"
        "for (const n of [3, 4]) await tools.nh_eval({expression: `note(${n})`});"
        "await tools.nh_assign({target_path: 'number', expression: '7'});"
        "text(all); await tools.nh_outcome({kind: 'pass'});"
    )
    notes = list[int]()
    model = Scripted(custom_call("exec", script))
    async with ModelServer(model) as server, nh.run(executor(server, SCRIPTING)) as run:
        assert await work(notes.append) == 7
    assert sorted(notes[:3]) == [0, 1, 2]  # begun at once, so in any order
    assert notes[3:] == [3, 4]
    assert usage_of(run).requests == 1


async def test_an_outcome_that_is_refused_goes_back_and_so_does_text_alone() -> None:
    model = Scripted(ends("break"), ModelReply(text="I am done."), ends())
    async with ModelServer(model) as server, nh.run(executor(server)):
        assert await work() == 1
    (refused,) = results(model.requests[1])
    assert "kind" in refused
    assert "nh_outcome" in texts(model.requests[2])[-1]


async def test_limits_on_turns_and_calls_hold() -> None:
    again = calls(call("nh_eval", expression="1"))
    model = Scripted(again, again, again)
    async with ModelServer(model) as server, nh.run(executor(server, max_turns=2)):
        with pytest.raises(nh.errors.StepLimitError, match="max_turns"):
            await work()
    assert len(model.requests) == 2
    two = calls(call("nh_eval", expression="1"), call("nh_eval", expression="2"))
    async with ModelServer(Scripted(two)) as server, nh.run(executor(server, max_tool_calls=1)):
        with pytest.raises(nh.errors.StepLimitError, match="max_tool_calls"):
            await work()


async def test_a_budget_ends_the_step_before_the_next_request() -> None:
    again = calls(call("nh_eval", expression="1"))
    model = Scripted(again, again, again)
    async with ModelServer(model) as server, nh.run(executor(server), budget=nh.budget(tokens=12)):
        with pytest.raises(nh.errors.BudgetExceededError):
            await work()
    assert len(model.requests) == 1


async def test_messages_reach_a_running_step_and_a_suspended_one_waits() -> None:
    def pause() -> None:
        nh.get_current_step_actor().steer("Be quick.")
        nh.get_current_step_actor().suspend()

    model = Scripted(calls(call("nh_eval", expression="note()")), ends())
    async with ModelServer(model) as server, nh.run(executor(server)), nh.open_tasks(at_end="wait") as tasks:
        handle = tasks.start(work, pause)
        await wait_until(lambda: model.requests)
        await handle.wait_suspended()
        await anyio.sleep(0.3)
        assert len(model.requests) == 1
        handle.resume("Go on.")
    assert texts(model.requests[1])[-2:] == ["Be quick.", "Go on."]


async def test_a_command_that_is_denied_does_not_run_and_its_model_learns_why(repository: Path) -> None:
    model = Scripted(calls(call("exec_command", cmd="touch made")), ends())
    with_shell = {"native_tools": ["shell"], "sandbox": "workspace-write", "working_directory": repository}
    permissions = nh.permissions(deny=nh.policies.rule("Codex.shell", command="touch *"), default="allow")
    async with ModelServer(model) as server:
        with observe.recording() as tree:
            async with nh.run(executor(server, **with_shell), permissions=permissions):
                await work()
    (answer,) = results(model.requests[1])
    assert "touch" in answer
    assert "den" in answer
    assert names(repository) == []
    (node,) = (view for view in tree.snapshot().walk() if view.name == "Codex.shell")
    assert node.state == "failed"


class Person:
    """Approves what is asked."""

    def __init__(self) -> None:
        self.asked = list[Any]()

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        self.asked.append((request.action, request.arguments["command"]))
        request.approve("ada", digest=request.digest)

    async def ask(self, question: nh.human.Question) -> object:
        raise nh.errors.NoHumanError("no questions")


@pytest.mark.parametrize("model_name", ["gpt-5.4", SCRIPTING])
async def test_a_command_that_a_person_approves_runs_in_the_sandbox(
    repository: Path, model_name: str
) -> None:
    cmd = "touch made; touch /var/tmp/nighthawk-outside; echo said"
    if model_name == SCRIPTING:
        first = custom_call("exec", f"text(await tools.exec_command({{cmd: '{cmd}'}}));")
    else:
        first = calls(call("exec_command", cmd=cmd))
    model, person = (
        Scripted(
            first,
            ends()
            if model_name != SCRIPTING
            else custom_call("exec", "await tools.nh_outcome({kind: 'pass'})"),
        ),
        Person(),
    )
    with_shell = {"native_tools": ["shell"], "sandbox": "workspace-write", "working_directory": repository}
    async with ModelServer(model) as server:
        with observe.recording() as tree:
            async with nh.run(
                executor(server, model_name, **with_shell),
                permissions=nh.permissions(ask="Codex.*", default="allow"),
                human=person,
            ):
                await work()
    assert person.asked == [("Codex.shell", cmd)]
    assert (repository / "made").exists()
    assert not await anyio.Path("/var/tmp/nighthawk-outside").exists()
    assert "said" in results(model.requests[1])[-1]
    (node,) = (view for view in tree.snapshot().walk() if view.name == "Codex.shell")
    assert "said" in str(node.outputs)


async def test_a_command_in_the_sandbox_cannot_touch_the_socket_of_the_gate(repository: Path) -> None:
    sockets = f"{os.environ['XDG_CACHE_HOME']}/nighthawk_async/codex/*/gate"
    model = Scripted(
        calls(call("exec_command", cmd=f"rm -v {sockets}")),
        calls(call("exec_command", cmd="echo said")),
        ends(),
    )
    settings = {"native_tools": ["shell"], **WRITES, "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings)):
        await work()
    refused, after = results(model.requests[2])
    assert "Read-only file system" in refused or "Permission denied" in refused
    assert "Process exited with code 0" in after


async def test_a_hook_rewrites_a_patch(repository: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    hooks = nh.Hooks()

    @hooks.on(nh.hooks.BeforeToolCall)
    def rewrite(event: nh.hooks.BeforeToolCall) -> nh.hooks.Modify | None:
        if event.tool_name != "Codex.apply_patch":
            return None
        return nh.hooks.Modify({"command": event.arguments["command"].replace("a.txt", "b.txt")})

    model = Scripted(custom_call("apply_patch", patch), ends())
    settings = {
        "native_tools": ["apply_patch"],
        "sandbox": "workspace-write",
        "working_directory": repository,
    }
    async with ModelServer(model) as server, nh.run(executor(server, PATCHING, **settings), hooks=hooks):
        await work()
    assert names(repository) == ["b.txt"]


async def test_native_tools_are_off_unless_asked_for(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("Sing.")
    home = anyio.Path(os.environ["CODEX_HOME"])
    await home.mkdir()
    await (home / "AGENTS.md").write_text("Dance.")
    await (home / "config.toml").write_text('developer_instructions = "Whistle."\n')
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    model = Scripted(custom_call("apply_patch", patch), ends())
    settings = {"sandbox": "danger-full-access", "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, PATCHING, **settings)):
        await work()
    assert names(repository) == ["AGENTS.md"]
    sent = model.requests[0].content.decode()
    assert not any(word in sent for word in ("Sing.", "Dance.", "Whistle.", "exec_command", "web_search"))


async def test_project_files_are_read_when_asked_for(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("Sing.")
    model = Scripted(ends())
    settings = {"setting_sources": ["project"], "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings)):
        await work()
    assert "Sing." in model.requests[0].content.decode()


async def test_a_cancelled_step_ends_its_command_and_others_go_on(repository: Path) -> None:
    replies = [calls(call("exec_command", cmd="sleep 97.25", yield_time_ms=30_000))]
    model = by_conversation(calls(call("nh_eval", expression="1")), ends())

    def reply(request: RecordedRequest) -> ModelReply:
        return replies.pop() if replies else model(request)

    def sleeping() -> bool:
        return "97.25" in [line[-1] for line in command_lines() if line]

    with_shell = {"native_tools": ["shell"], "sandbox": "workspace-write", "working_directory": repository}
    async with ModelServer(reply) as server, nh.run(executor(server, **with_shell)):
        async with nh.open_tasks() as tasks:
            handle = tasks.start(work)
            await wait_until(sleeping)
            handle.cancel()
            with pytest.raises(nh.parallel.TaskCancelledError):
                await handle
        await wait_until(lambda: not sleeping())
        assert await work() == 1


async def test_tools_that_are_found_while_the_step_runs_can_be_called() -> None:
    cities = list[str]()

    def weather(city: str) -> str:
        """Tell the weather of a city."""
        cities.append(city)
        return "rain"

    model = Scripted(
        calls(call("nh_find_tools", query="weather of a city")),
        calls(call("nh_call_found_tool", name="weather", arguments={"city": "Kobe"})),
        ends(),
    )
    async with ModelServer(model) as server, nh.run(executor(server)):
        with nh.scope(tools=[nh.tool_set([weather], deferred=True)]):
            await work()
    assert cities == ["Kobe"], results(model.requests[2])
    assert "rain" in results(model.requests[2])[-1]


@pytest.mark.parametrize("model_name", [PATCHING, SCRIPTING])
async def test_a_patch_that_is_permitted_stays_in_the_sandbox(repository: Path, model_name: str) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    script = f"text(await tools.apply_patch(`{patch}`));"
    if model_name == SCRIPTING:
        model = Scripted(custom_call("exec", script), custom_call("exec", OUTCOME))
    else:
        model = Scripted(custom_call("apply_patch", patch), ends())
    settings = {"native_tools": ["apply_patch"], "sandbox": "read-only", "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, model_name, **settings)):
        with anyio.fail_after(240):
            await work()
    assert names(repository) == []
    assert "rejected" in results(model.requests[1])[0]


@pytest.mark.parametrize("model_name", ["gpt-5.4", SCRIPTING])
async def test_servers_of_the_user_work_when_they_are_asked_for(repository: Path, model_name: str) -> None:
    home = anyio.Path(os.environ["CODEX_HOME"])
    await home.mkdir()
    path = Path(__file__).with_name("echo_server.py")
    servers = f"[mcp_servers.local]\ncommand = '{sys.executable}'\nargs = ['-I', '{path}']\n"
    await (home / "config.toml").write_text(servers)
    if model_name == SCRIPTING:
        script = "text(await tools.mcp__local__echo({text: 'hi'}));"
        model = Scripted(custom_call("exec", script), custom_call("exec", OUTCOME))
    else:
        item = {**function_item(call("echo", text="hi")), "namespace": "mcp__local"}
        model = Scripted(several(item), ends())
    settings = {"setting_sources": ["user"], "native_tools": ["mcp__local__echo"]}
    async with ModelServer(model) as server:
        with observe.recording() as tree:
            async with nh.run(
                executor(server, model_name, working_directory=repository, **settings),
                permissions=nh.permissions(allow=nh.policies.rule("Codex.mcp__*", text="hi"), default="deny"),
            ):
                await work()
    assert "you said hi" in results(model.requests[1])[0]
    (node,) = (view for view in tree.snapshot().walk() if view.name == "Codex.mcp__local__echo")
    assert "you said hi" in str(node.outputs)


@pytest.mark.parametrize("place", ["alone", "first", "last"])
async def test_a_call_whose_arguments_are_no_json_holds_nobody_up(place: str) -> None:
    bad = {**function_item(call("nh_eval")), "arguments": '{"expression": '}
    good = function_item(call("nh_eval", expression="6 * 7"))
    items = {"alone": [bad], "first": [bad, good], "last": [good, bad]}[place]
    model = Scripted(several(*items), ends())
    async with ModelServer(model) as server, nh.run(executor(server)):
        with anyio.fail_after(240):
            assert await work() == 1
    answers = results(model.requests[1])
    assert len(answers) == len(items)
    assert "42" in "".join(answers) or place == "alone"


async def test_tools_of_the_program_stand_beside_those_of_codex(repository: Path) -> None:
    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"rain in {city}"

    model = Scripted(calls(call("weather", city="Kobe"), call("exec_command", cmd="echo said")), ends())
    settings = {"native_tools": ["shell"], "working_directory": repository}
    permissions = nh.permissions(deny="Codex.shell", default="allow")
    async with ModelServer(model) as server, nh.run(executor(server, **settings), permissions=permissions):
        with nh.scope(tools=[weather]):
            await work()
    first, second = results(model.requests[1])
    assert "rain in Kobe" in first
    assert "said" not in second.replace("echo said", "")


async def test_a_killed_server_fails_its_steps_and_the_next_one_gets_another() -> None:
    def kill() -> None:
        for each in processes():
            each.send_signal(signal.SIGKILL)

    model = Scripted(calls(call("nh_eval", expression="note()")), ends())
    async with ModelServer(model) as server, nh.run(executor(server)):
        with pytest.raises(CodingAgentCrashedError, match="Codex"):
            await work(kill)
        assert await work(start=3) == 3


async def test_a_failed_request_is_an_error_with_its_status() -> None:
    bad = ModelReply(status=400, error={"message": "the key of the model is bad"})
    model = Scripted(bad, ends())
    async with ModelServer(model) as server, nh.run(executor(server)):
        with pytest.raises(CodingAgentRequestError, match="the key of the model is bad") as caught:
            await work()
        assert not caught.value.is_transient
        assert await work(start=3) == 3


@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_our_tools_and_those_of_codex_in_one_response(repository: Path, first: str) -> None:
    """One of Codex's tools that changes files waits for the others, which must not wait for it."""
    notes = list[int]()
    pair = [call("nh_eval", expression="note(1)"), call("exec_command", cmd="echo 2 > two")]
    if first == "theirs":
        pair.reverse()
    model = Scripted(calls(*pair, call("nh_outcome", kind="pass")), ends())
    settings = {"native_tools": ["shell"], "sandbox": "workspace-write", "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings)):
        with anyio.fail_after(240):
            assert await work(notes.append) == 1
    assert notes == [1]
    assert await anyio.Path(repository, "two").read_text() == "2\n"
    assert len(model.requests) == 2


async def test_a_patch_beside_our_tools_does_not_wait_for_ever(repository: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    another = patch.replace("a.txt", "b.txt")
    model = Scripted(
        several(custom_item("apply_patch", patch), function_item(call("nh_eval", expression="note(1)"))),
        several(
            function_item(call("nh_eval", expression="note(2)")),
            custom_item("apply_patch", another),
        ),
        ends(),
    )
    notes = list[int]()
    settings = {
        "native_tools": ["apply_patch"],
        "sandbox": "workspace-write",
        "working_directory": repository,
    }
    async with ModelServer(model) as server, nh.run(executor(server, PATCHING, **settings)):
        with anyio.fail_after(240):
            await work(notes.append)
    assert notes == [1, 2]
    assert sorted(names(repository)) == ["a.txt", "b.txt"]


async def test_a_hook_changes_what_the_model_sees_of_a_command(repository: Path) -> None:
    hooks = nh.Hooks()

    @hooks.on(nh.hooks.AfterToolCall)
    def hide(event: nh.hooks.AfterToolCall) -> nh.hooks.Modify | None:
        return nh.hooks.Modify("nothing to see") if event.tool_name == "Codex.shell" else None

    model = Scripted(calls(call("exec_command", cmd="echo secret")), ends())
    settings = {"native_tools": ["shell"], "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings), hooks=hooks):
        await work()
    (result,) = results(model.requests[1])
    assert "nothing to see" in result
    assert "secret" not in result


async def test_a_suspended_step_holds_what_follows_a_command(repository: Path) -> None:
    hooks = nh.Hooks()

    @hooks.on(nh.hooks.AfterToolCall)
    def suspend(event: nh.hooks.AfterToolCall) -> None:
        nh.get_current_step_actor().suspend()

    model = Scripted(calls(call("exec_command", cmd="true")), ends())
    settings = {"native_tools": ["shell"], "working_directory": repository}
    async with (
        ModelServer(model) as server,
        nh.run(executor(server, **settings), hooks=hooks),
        nh.open_tasks(at_end="wait") as tasks,
    ):
        handle = tasks.start(work)
        await wait_until(lambda: model.requests)
        await handle.wait_suspended()
        await anyio.sleep(0.3)
        assert len(model.requests) == 1
        handle.resume("Go on.")
    assert texts(model.requests[1])[-1] == "Go on."


async def test_commands_count_as_tool_calls(repository: Path) -> None:
    one = calls(call("exec_command", cmd="echo >> ran"))
    model = Scripted(one, one, one)
    settings = {"native_tools": ["shell"], "sandbox": "workspace-write", "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, max_tool_calls=2, **settings)):
        with pytest.raises(nh.errors.StepLimitError, match="max_tool_calls"):
            await work()
    assert await anyio.Path(repository, "ran").read_text() == "\n\n"


async def test_no_command_survives_its_step(repository: Path) -> None:
    left = "sleep 96.5 & sleep 96.75"
    model = Scripted(calls(call("exec_command", cmd=left, yield_time_ms=250)), ends())
    settings = {"native_tools": ["shell"], "sandbox": "danger-full-access", "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings)):
        await work()
        await wait_until(lambda: not any({"96.5", "96.75"} & {*line} for line in all_command_lines()))


async def test_a_stopped_server_does_not_hold_a_cancelled_step() -> None:
    is_stopped = anyio.Event()

    async def stop() -> None:
        for each in processes():
            each.send_signal(signal.SIGSTOP)
        is_stopped.set()
        await anyio.sleep_forever()

    model = Scripted(calls(call("nh_eval", expression="note()")), ends())
    async with ModelServer(model) as server, nh.run(executor(server)):
        async with nh.open_tasks() as tasks:
            handle = tasks.start(work, stop)
            await is_stopped.wait()
            handle.cancel()
            await handle.wait_ended()
        await wait_until(lambda: not processes())
        assert await work() == 1


async def test_a_past_comes_before_the_conversation_of_the_step() -> None:
    model = Scripted(calls(call("nh_eval", expression="6 * 7")), ends(), ends())
    async with ModelServer(model) as server, nh.run(executor(server)):
        await work()
        with nh.scope(past=nh.transcript()):
            await work()
    sent = model.requests[-1].content.decode()
    assert "6 * 7" in sent
    assert "42" in sent


def test_synchronous_steps_of_a_run_share_one_process() -> None:
    @nh.natural_function
    def now(start: int) -> int:
        """natural
        Return <start>.
        """
        return 0

    replies = [ends("return", return_expression="start")] * 2
    with ModelServer.in_thread(Scripted(*replies)) as server, nh.run(executor(server)):
        assert now(1) == 1
        first = psutil.Process().children()  # what the server itself starts may end at any time
        assert now(2) == 2
        assert psutil.Process().children() == first


async def test_commands_see_no_keys(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush")
    monkeypatch.setenv("GITHUB_TOKEN", "hush too")
    model = Scripted(calls(call("exec_command", cmd="env")), ends())
    settings = {"native_tools": ["shell"], "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings)):
        await work()
    assert "PATH=" in results(model.requests[1])[0]
    assert "hush" not in model.requests[1].content.decode()
    assert '"key"' not in results(model.requests[1])[0]


async def test_oversight_refuses_calls_of_both_kinds_and_commits(repository: Path) -> None:
    class Overseer:
        commits = 0

        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Decision:
            if inspection.tool_name in ("Codex.shell", "nh_eval"):
                return nh.oversight.Reject(reason=f"no {inspection.tool_name} today")
            return nh.oversight.Accept()

        def inspect_step_commit(self, inspection: nh.oversight.StepCommit) -> nh.oversight.Decision:
            self.commits += 1
            return nh.oversight.Accept()

    model = Scripted(
        calls(call("exec_command", cmd="touch made"), call("nh_eval", expression="note(1)")), ends()
    )
    overseer, notes = Overseer(), list[int]()
    settings = {"native_tools": ["shell"], **WRITES, "working_directory": repository}
    async with ModelServer(model) as server, nh.run(executor(server, **settings), oversight=overseer):
        await work(notes.append)
    refused = "".join(results(model.requests[1]))
    assert "no Codex.shell today" in refused
    assert "no nh_eval today" in refused
    assert (notes, names(repository), overseer.commits) == ([], [], 1)


async def test_skills_of_the_scope_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "adding-numbers"
    folder.mkdir(parents=True)
    text = "---\nname: adding-numbers\ndescription: Adds.\n---\nCarry the one.\n"
    (folder / "SKILL.md").write_text(text)
    skills = nh.skills.load(tmp_path / "skills")
    model = Scripted(calls(call("nh_skill", name="adding-numbers")), ends())
    async with ModelServer(model) as server, nh.run(executor(server), skills=skills):
        await work()
    assert "Adds." in model.requests[0].content.decode()
    assert "Carry the one." in results(model.requests[1])[0]


async def test_a_durable_run_takes_the_result_of_the_whole_step(tmp_path: Path) -> None:
    model = Scripted(
        calls(call("nh_eval", expression="note(1)")),
        calls(call("nh_assign", target_path="number", expression="7"), call("nh_outcome", kind="pass")),
    )
    notes = list[int]()
    async with ModelServer(model) as server:
        for _life in range(2):
            with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
                async with nh.run(executor(server), journal=store, run_id="one"):
                    assert await work(notes.append) == 7
    assert (notes, len(model.requests)) == ([1], 2)


async def test_a_cost_ends_the_step_before_the_next_request() -> None:
    again = calls(call("nh_eval", expression="1"))
    model = Scripted(again, again)
    async with ModelServer(model) as server, nh.run(executor(server, max_budget_usd=0.000_000_1)):
        with pytest.raises(CodingAgentRequestError, match="max_budget_usd"):
            await work()
    assert len(model.requests) == 1


async def test_a_limit_of_the_cost_needs_a_price() -> None:
    model = Scripted(ends())
    async with ModelServer(model) as server, nh.run(executor(server, "gpt-unheard-of", max_budget_usd=9)):
        with pytest.raises(nh.errors.ConfigurationError, match=r"max_budget_usd.*price"):
            await work()
    assert model.requests == []
