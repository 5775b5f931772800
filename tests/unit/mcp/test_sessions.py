"""The sessions of a run with its servers: start, loss, limits, cancellation and end."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel
from tests.unit.mcp.support import PlainServer, processes, wait_until

pytestmark = pytest.mark.anyio
MODEL = ScriptedModel([])


async def test_a_description_starts_nothing_and_serves_many_runs_at_once(plain: PlainServer) -> None:
    server = plain.describe()
    assert not (plain.folder / "record.jsonl").exists()

    async def use() -> None:
        async with nh.run(MODEL, servers={"tools": server}):
            assert await server_object("tools").echo(text="a") == "a"

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        group.start_soon(use)
    assert plain.count("started") == 2, "a session for each run"


def server_object(name: str) -> Any:
    from nighthawk_async.kernel.environment import get_environment

    return get_environment().implicit_references[name]


async def test_a_run_has_one_session_with_a_server_under_all_of_its_names(plain: PlainServer) -> None:
    server = plain.describe()
    async with nh.run(MODEL, servers={"one": server, "other": server}):
        assert type(server_object("one")).__name__ == "One"
        assert type(server_object("other")).__name__ == "Other"
        async with nh.mcp.connect(server, name="third") as third:
            assert await third.echo(text="a") == "a"
        assert await server_object("one").echo(text="b") == "b", "connect does not end the run's session"
    assert plain.count("started") == 1


async def test_a_server_that_is_not_found_is_named(plain: PlainServer) -> None:
    server = nh.mcp.stdio("no-such-command-at-all", name="missing")
    with pytest.raises(
        nh.mcp.ServerUnavailableError, match="Server 'missing' cannot be used: there is no command 'no-such"
    ):
        async with nh.run(MODEL, servers={"missing": server, "tools": plain.describe()}):
            pytest.fail("the run was entered")
    assert processes() == []


async def test_a_server_that_ends_at_once_is_an_error_with_its_last_words(plain: PlainServer) -> None:
    with pytest.raises(nh.mcp.ServerUnavailableError, match="cannot read its settings"):
        async with nh.mcp.connect(plain.describe("ends")):
            pytest.fail("there is no session")


async def test_a_server_that_does_not_speak_the_protocol_is_given_up_in_time(plain: PlainServer) -> None:
    server = plain.describe("garbage", connect_timeout=1.5)
    with pytest.raises(
        nh.mcp.ServerUnavailableError, match=r"not answer in 1.5 seconds.*'Welcome to the server!'"
    ):
        async with nh.mcp.connect(server):
            pytest.fail("there is no session")
    assert processes() == []


async def test_a_folder_that_is_not_there_is_named(plain: PlainServer) -> None:
    server = plain.describe(cwd="/no/such/folder")
    with pytest.raises(nh.mcp.ServerUnavailableError, match="/no/such/folder"):
        async with nh.mcp.connect(server):
            pytest.fail("there is no session")


async def test_two_tools_with_the_same_name_are_an_error_that_names_both(plain: PlainServer) -> None:
    with pytest.raises(nh.errors.ToolRegistrationError, match=r"'a_b': 'a_b' and 'a\.b'"):
        async with nh.mcp.connect(plain.describe("collision")):
            pytest.fail("there is no session")
    async with nh.mcp.connect(plain.describe("collision", only=["a_b"])) as tools:
        assert [name for name in vars(type(tools)) if not name.startswith("_")] == ["a_b"]


async def test_a_server_that_dies_between_calls_is_started_again(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        for _ in range(3):
            assert await tools.echo(text="a") == "a"
            (process,) = processes()
            process.kill()
            await wait_until(lambda process=process: not process.is_running())
        assert await tools.append(line="after") == "done"
    assert plain.count("started") == 4


async def test_a_call_in_flight_is_a_transient_error_when_its_server_dies(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        with pytest.raises(
            nh.mcp.ServerLostError, match="die: the connection to server 'plain' was lost"
        ) as lost:
            await tools.die()
        assert lost.value.kind == "transient"
        assert lost.value.is_transient
        assert lost.value.may_have_begun
        assert await tools.echo(text="again") == "again"
    assert plain.count("die") == 1, "it is not repeated"


async def test_a_call_that_may_be_repeated_is_repeated(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        assert await tools.store(text="a") == "stored a"
    assert plain.count("store") == 2


async def test_a_server_that_keeps_dying_is_given_up(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe("dies_again", max_restarts=2)) as tools:
        with pytest.raises(nh.mcp.ServerCallError, match="was lost 3 times in a row"):
            await tools.store(text="a")
        with pytest.raises(nh.mcp.ServerCallError, match="not connected again") as caught:
            await tools.echo(text="b")
        assert caught.value.kind == "execution"


async def test_tools_that_may_change_something_run_one_at_a_time(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools, anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(tools.append, str(number))
    lines = (plain.folder / "lines.txt").read_text().split()
    assert sorted(map(int, lines)) == list(range(20))


async def test_tools_that_only_read_run_at_the_same_time(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        with anyio.fail_after(240):
            async with anyio.create_task_group() as group:
                group.start_soon(tools.meet)
                group.start_soon(tools.meet)


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server_and_the_session_lives_on(
    plain: PlainServer,
) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        async with anyio.create_task_group() as group:
            group.start_soon(tools.hang)
            await wait_until(lambda: plain.count("hanging") == 1)
            group.cancel_scope.cancel()
        await wait_until(lambda: plain.count("cancelled") == 1)
        assert await tools.echo(text="a") == "a"
    assert plain.count("started") == 1


async def test_a_call_without_a_sign_of_life_ends_and_progress_is_one(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe(call_timeout=0.3)) as tools:
        with pytest.raises(
            nh.mcp.ServerLostError, match=r"hang: .* no sign of life in 0.3 seconds"
        ) as caught:
            await tools.hang()
        assert caught.value.kind == "transient"
        assert await tools.work(steps=24) == "worked", "which took 1.2 seconds"
    assert plain.count("hang") == 1, "it is not repeated"


async def test_lines_that_are_no_messages_do_no_harm(
    plain: PlainServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        assert await tools.garbage() == "written"
        assert await tools.echo(text="a") == "a"
    assert "plain wrote a line that is no message: this is no message" in caplog.text


async def test_a_server_gets_no_variables_but_the_usual_ones_and_those_that_are_given(
    plain: PlainServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "hidden")
    async with nh.mcp.connect(plain.describe(env={"GIVEN": "yes"}, cwd=plain.folder)) as tools:
        variables, folder = json.loads(await tools.environment())
    assert variables["GIVEN"] == "yes"
    assert "PATH" in variables
    assert "SECRET_KEY" not in variables
    assert Path(folder) == plain.folder


async def test_standard_error_and_messages_of_a_server_are_logged(
    plain: PlainServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nighthawk.mcp")
    async with nh.mcp.connect(plain.describe()) as tools:
        await tools.log()
        await wait_until(lambda: "a line on standard error" in caplog.text)
        await wait_until(lambda: "a message of the log" in caplog.text)


async def test_no_process_is_left_after_a_run_not_even_what_a_server_leaves_behind(
    plain: PlainServer,
) -> None:
    async with nh.run(MODEL, servers={"tools": plain.describe()}):
        left = int(await server_object("tools").leave_behind())
        assert psutil.pid_exists(left)
    await wait_until(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == "zombie")
    assert processes() == []


async def test_a_run_that_is_cancelled_or_fails_ends_its_servers_too(plain: PlainServer) -> None:
    with anyio.CancelScope() as scope:
        async with nh.run(MODEL, servers={"tools": plain.describe()}):
            scope.cancel()
            await checkpoint()
    assert processes() == []
    with pytest.raises(ZeroDivisionError):
        async with nh.run(MODEL, servers={"tools": plain.describe("ignores_end")}):
            _ = 1 / 0
    assert processes() == []


async def test_all_servers_of_a_run_end_at_the_same_time(plain: PlainServer) -> None:
    servers = {f"tools{number}": plain.describe("ignores_end") for number in range(3)}
    async with nh.run(MODEL, servers=servers):
        pass
    told = [at for what, at in plain.record if what == "end_of_input"]
    assert len(told) == 3
    assert max(told) - min(told) < 2, "each takes two seconds to end"
    assert processes() == []


async def test_the_end_of_a_cancelled_task_can_still_use_the_servers_of_the_run(plain: PlainServer) -> None:
    with anyio.CancelScope() as scope:
        async with nh.run(MODEL, servers={"tools": plain.describe()}):
            tools = server_object("tools")
            scope.cancel()
            try:
                await checkpoint()
            finally:
                with anyio.CancelScope(shield=True):
                    assert await tools.append(line="cleaned up") == "done"
    assert plain.count("append") == 1
    assert processes() == []


async def test_the_end_of_a_cancelled_task_can_still_use_a_server_without_a_run(plain: PlainServer) -> None:
    with anyio.CancelScope() as scope:
        async with nh.mcp.connect(plain.describe("ignores_end")) as tools:
            scope.cancel()
            try:
                await checkpoint()
            finally:
                with anyio.CancelScope(shield=True):
                    assert await tools.append(line="cleaned up") == "done"
    assert plain.count("append") == 1
    assert processes() == []


async def test_resources_of_a_run_end_before_its_servers(plain: PlainServer) -> None:
    class Journal:
        def __init__(self, tools: Any) -> None:
            self.tools = tools

        async def aclose(self) -> None:
            await self.tools.append(line="the end")

    late = plain.describe(name="late")
    async with nh.run(MODEL, servers={"tools": plain.describe()}), nh.mcp.connect(late) as tools:

        async def open_journal() -> Journal:
            return Journal(tools)

        await nh.resource("journal", open_journal, owner="run")
    assert [what for what, _ in plain.record if what in ("append", "end_of_input")] == [
        "append",
        "end_of_input",
        "end_of_input",
    ]


async def test_sessions_are_resources_in_the_tree(plain: PlainServer) -> None:
    with nh.observe.recording() as tree:
        async with nh.run(MODEL, servers={"tools": plain.describe(name="a/b[1]")}):
            pass
    (run,) = tree.snapshot().children
    (node,) = run.children
    assert (node.kind, node.name, node.state) == ("resource", "server a_b_1_", "completed")


async def test_a_connection_that_is_cancelled_is_opened_anew_by_the_next_caller(plain: PlainServer) -> None:
    server = plain.describe("hangs_first")
    async with nh.run(MODEL):
        async with anyio.create_task_group() as group:
            group.start_soon(connect_to, server)
            await wait_until(lambda: (plain.folder / "record.jsonl").exists())
            group.cancel_scope.cancel()
        async with nh.mcp.connect(server) as tools:
            assert await tools.echo(text="a") == "a"
    assert plain.count("started") == 2
    assert processes() == []


async def connect_to(server: nh.mcp.Server) -> None:
    async with nh.mcp.connect(server):
        await anyio.sleep_forever()


async def test_a_session_ends_with_its_run(plain: PlainServer) -> None:
    async with nh.run(MODEL, servers={"tools": plain.describe()}):
        tools = server_object("tools")
    with pytest.raises(nh.mcp.McpError, match="session with server 'plain' has ended"):
        await tools.echo(text="a")


def test_servers_need_an_asynchronous_run(plain: PlainServer) -> None:
    with (
        pytest.raises(nh.NighthawkError, match="`async with`"),
        nh.run(MODEL, servers={"tools": plain.describe()}),
    ):
        pytest.fail("the run was entered")


async def test_a_call_from_another_event_loop_is_refused(plain: PlainServer) -> None:
    async with nh.run(MODEL, servers={"tools": plain.describe()}):
        tools = server_object("tools")
        with pytest.raises(nh.NighthawkError, match="another"):
            await anyio.to_thread.run_sync(lambda: anyio.run(tools.echo, "a"))
        assert await tools.echo(text="a") == "a"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nh.mcp.stdio(""), "must not be empty"),
        (lambda: nh.mcp.stdio("x", 1), "NoneType|int"),
        (lambda: nh.mcp.stdio("x", "a\0b"), "texts, not"),
        (lambda: nh.mcp.stdio("x", env={"A": 1}), "texts, not 1"),
        (lambda: nh.mcp.stdio("x", call_timout=1), "no option 'call_timout'.*call_timeout"),
        (lambda: nh.mcp.stdio("x", call_timeout=-1), "call_timeout must be a number of seconds"),
        (lambda: nh.mcp.stdio("x", max_concurrent=0), "max_concurrent must be a number from 1"),
        (lambda: nh.mcp.stdio("x", only="read"), "only must be a collection"),
        (lambda: nh.mcp.stdio("x", name=""), "name of a server"),
        (lambda: nh.mcp.http("ftp://x"), "begins with http"),
        (lambda: nh.mcp.http("https://"), "begins with http"),
        (lambda: nh.mcp.http("https://x", headers={"A": "ä"}), "value of the header 'A' has characters"),
        (lambda: nh.mcp.http("https://x", headers={"A\n": "b"}), r"name of the header 'A\\n' has characters"),
        (lambda: nh.mcp.http("https://x", headers={"A": None}), "header 'A' is a text, not NoneType"),
        (lambda: nh.run(MODEL, servers=[nh.mcp.stdio("x")]), "mapping of names to servers"),
        (lambda: nh.run(MODEL, servers={"a b": nh.mcp.stdio("x")}), "'a b' is no name"),
        (lambda: nh.run(MODEL, servers={"a": "x"}), "'a' must be a server"),
        (lambda: nh.mcp.stdio("x").tools(prefix="1"), "prefix must be ASCII"),
        (lambda: nh.mcp.stdio("x").tools(search="native"), "deferred=True"),
    ],
    ids=lambda value: value if isinstance(value, str) else "made",
)
def test_bad_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises((nh.NighthawkError, TypeError), match=message):
        make()


def test_a_description_shows_no_secrets() -> None:
    server = nh.mcp.http("https://user:pass@host.example/mcp?key=1", headers={"Authorization": "secret"})
    assert repr(server) == "<server 'host.example' (https://host.example/mcp)>"
    assert repr(nh.mcp.stdio("/bin/server", "--key", "secret")) == "<server 'server' (server)>"


def test_without_the_package_an_error_says_how_to_install_it() -> None:
    program = (
        "import sys, anyio\n"
        "sys.modules['mcp'] = None\n"
        "import nighthawk_async as nh\n"
        "async def main():\n"
        "    async with nh.mcp.connect(nh.mcp.stdio('server')):\n"
        "        pass\n"
        "try:\n"
        "    anyio.run(main)\n"
        "except nh.ConfigurationError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'nighthawk-async[mcp]'" in result.stdout
