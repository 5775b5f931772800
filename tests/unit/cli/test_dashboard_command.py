"""`nighthawk-async dashboard`: an application with the dashboard beside it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.top_client import DashboardClient
from nighthawk_async.evals import Case, evaluate
from nighthawk_async.testing import ScriptedExecutor
from tests.warm_python import WarmPopen

pytestmark = pytest.mark.usefixtures("warm_python")

TOKEN = "a-token-of-enough-characters"

APPLICATION = """
import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

@nh.natural_function
async def stars(review: str) -> int:
    count: int
    \"\"\"natural
    Set <:count> to the number of stars that <review> gives.
    \"\"\"
    return count

async def answer(scope, receive, send):
    assert scope["type"] == "http", "it takes no part in a lifespan"
    async with nh.run(CallbackExecutor(lambda call: pass_response(count=3))):
        asked = scope["path"] == "/ask"
        body = str(await nh.ask_user("How many?", schema=int) if asked else await stars("***")).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """The addresses of the application and of the dashboard, while a process serves them."""
    (folder / "service.py").write_text(APPLICATION)
    with served_addresses(folder, *arguments, lines=2) as (first, second):
        yield first, second


@contextmanager
def served_addresses(folder: Path, *arguments: str, lines: int) -> Iterator[list[str]]:
    """The addresses that the command prints, while it serves them."""
    command = [sys.executable, "-m", "nighthawk_async", "dashboard", *arguments, "--port", "0"]
    environment = {**os.environ, "NO_PROXY": "*"}
    process = WarmPopen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            printed = [process.stdout.readline() for _ in range(lines)]
            assert printed[-1], process.stderr.read()
            yield [line.split()[1] for line in printed]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 130
            assert process.stderr.read() == "interrupted\n"


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=240) as response:
        return response.read().decode()


def test_an_application_is_served_and_what_it_does_is_shown(tmp_path: Path) -> None:
    with served(tmp_path, "service:answer") as (application, page):
        assert get(application) == "3"
        assert "<!doctype html>" in get(page)
        tree = json.loads(get(f"{page}api/tree"))
        assert (tree["title"], tree["can_act"]) == ("service", False)
        assert tree["tree"]["children"][0]["children"][0]["name"] == "stars"
        request = urllib.request.Request(f"{page}api/tree", headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="421"):
            urllib.request.urlopen(request, timeout=240)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the client of `top` runs there alone
async def test_the_runs_of_a_store_are_served_and_answered(tmp_path: Path) -> None:
    async def program() -> int:
        return await nh.ask_user("How many?", schema=int)

    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        run = partial(
            nh.run, ScriptedExecutor(), journal=store, run_id="order-17", human=store.people(), park_after=0
        )
        with pytest.raises(nh.journal.RunParked):
            async with run():
                await program()
        arguments = ["--journal", "runs.db", "--allow-actions"]
        with served_addresses(tmp_path, *arguments, lines=1) as (address,):
            page, _, token = address.partition("#token=")
            async with DashboardClient(page, token) as client, aclosing(client.changes()) as changes:
                (_, reset), (_, first) = await anext(changes), await anext(changes)
                assert reset["title"] == "runs.db"
                (question,) = [node for node in first["nodes"] if node["kind"] == "question"]
                await client.act(question["id"], "answer", {"text": "3"})
        async with run():
            assert await program() == 3


@pytest.mark.anyio
async def test_reports_of_evaluations_are_served_side_by_side(tmp_path: Path) -> None:
    async def double(number: int) -> int:
        return 2 * number

    cases = [Case("one", inputs={"number": 1}, expected=2)]
    await evaluate(double, cases, name="before", path=tmp_path / "before.jsonl")
    await evaluate(double, cases, name="after", path=tmp_path / "after.jsonl")
    arguments = ["--evaluation", "after.jsonl", "--baseline", "before.jsonl"]
    with served_addresses(tmp_path, *arguments, lines=1) as (page,):
        tree = json.loads(await to_thread.run_sync(get, f"{page}api/tree"))
        assert (tree["title"], tree["can_act"]) == ("after.jsonl", False)
        shown = [node["evaluation"]["subject"] for node in tree["tree"]["children"]]
        assert shown == ["before", "after"]


def test_a_report_that_cannot_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["dashboard", "--evaluation", str(tmp_path / "none.jsonl")]) != 0
    error = capsys.readouterr().err
    assert "none.jsonl cannot be read" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["service:answer", "--journal", "runs.db"],
        ["--journal", "runs.db", "--evaluation", "report.jsonl"],
    ],
)
def test_an_application_a_store_or_a_report_is_served(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["dashboard", *arguments]) == 2
    assert "Give the application, or the store" in capsys.readouterr().err


def test_a_baseline_needs_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["dashboard", "service:answer", "--baseline", "before.jsonl"]) == 2
    assert "--evaluation REPORT" in capsys.readouterr().err


def test_a_token_is_made_up_for_whoever_reads_the_address(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "service.py:answer"), "--allow-actions", "--protect-reading", "--path", "/d"]
    with served(tmp_path, *arguments) as (_, page):
        matched = re.fullmatch(r"(http://127\.0\.0\.1:\d+/d/)#token=([\w-]{32})", page)
        assert matched is not None
        address, token = matched.groups()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(f"{address}api/tree")
        request = urllib.request.Request(f"{address}api/tree", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=240) as response:
            assert json.load(response)["can_act"] is True


def test_a_question_of_the_application_is_answered_at_the_page(tmp_path: Path) -> None:
    with ExitStack() as stack:
        application, page = stack.enter_context(served(tmp_path, "service:answer", "--token", TOKEN))
        events = stack.enter_context(events_of(f"{page}api/changes"))
        asked = stack.enter_context(ThreadPoolExecutor()).submit(get, f"{application}ask")
        stream = next(told["stream"] for told in events if "stream" in told)
        nodes = (node for told in events for node in told["nodes"])
        node = next(node for node in nodes if "answer" in node.get("controls", ()))
        request = urllib.request.Request(
            f"{page}api/nodes/{node['id']}/answer",
            data=json.dumps({"stream": stream, "text": "9007199254740993"}).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=240) as response:
            assert response.status == 202
        assert asked.result(240) == "9007199254740993"


def test_open_pages_do_not_keep_it_from_ending(tmp_path: Path) -> None:
    with ExitStack() as pages, served(tmp_path, "service:answer") as (_, page):
        for path in ("api/changes", "api/nodes/0/changes"):
            next(pages.enter_context(events_of(f"{page}{path}")))


@contextmanager
def events_of(address: str) -> Iterator[Iterator[Any]]:
    """What the events of a stream tell."""
    with urllib.request.urlopen(address, timeout=240) as stream:
        yield (json.loads(line[len(b"data: ") :]) for line in stream if line.startswith(b"data: "))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such_module_here:app"], "no_such_module_here"),
        (["json:no_such_attribute"], "no_such_attribute"),
        (["json:__doc__"], "json:__doc__ is no ASGI application but of type str"),
        (["json:dumps", "--token", "short"], "at least 16"),
        (["json:dumps", "--path", "dashboard"], "begins with a slash"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert run_command_line(["dashboard", *arguments]) != 0
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_without_a_server_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run_command_line(["dashboard", "json:dumps"]) == 2
    assert "nighthawk-async[cli,dashboard]" in capsys.readouterr().err
