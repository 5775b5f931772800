"""`nighthawk-async journal show`, `tail`, `replay`, `fork` and copies."""

import pdb
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from tests.unit.journal.durable_runs import AnsweringModel, live, opened, shouting

PROGRAM = '''
import nighthawk_async as nh

@nh.natural_function
async def shout(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud

@nh.once
async def send(text: str) -> str:
    return f"sent {text}"

async def handle(word: str) -> str:
    loud = await shout(word)
    return await send(loud)

async def own_run(word: str) -> str:
    with nh.journal.open("sqlite:///elsewhere.db") as store:
        async with nh.run("openai-responses:gpt-5.4-nano", journal=store, run_id="order-17"):
            return await handle(word)

def synchronous(word: str) -> str:
    return "nothing"
'''


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shop17.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    import shop17  # pyright: ignore[reportMissingImports]

    model = shouting()
    with opened(tmp_path) as store:
        anyio.run(live, store, model, lambda: shop17.handle("a"), "order-17")
    yield tmp_path / "runs.db"
    del sys.modules["shop17"]


def run(*arguments: object) -> int:
    return run_command_line(["journal", *map(str, arguments)])


def test_a_run_as_a_tree(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", journal, "order-17") == 0
    shown = capsys.readouterr().out
    assert "✓ run order-17" in shown
    assert "shout(word)" in shown
    assert "send -> result='sent A'" in shown
    assert run("show", journal, "order-17", "--at", "run/send()[0]") == 0
    assert "● send" in capsys.readouterr().out
    assert run("show", journal, "order-17", "--at", "never") == 1
    assert "no moment" in capsys.readouterr().err
    assert run("show", journal, "order-18") == 2


def test_records_up_to_a_moment(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", journal, "order-17", "--records", "--at", "3") == 0
    assert [line.split()[4] for line in capsys.readouterr().out.splitlines()] == ["life", "step", "response"]


def test_a_run_as_a_page(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = journal.with_name("page.html")
    assert run("show", journal, "order-17", "--export", page) == 0
    assert capsys.readouterr().out == f"Page: {page}\n"
    assert "order-17" in page.read_text(encoding="utf-8")


def test_lives_are_listed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def again() -> None:
        with nh.journal.open(f"sqlite:///{journal}") as store:
            async with nh.run(nh.testing.ScriptedModel([]), journal=store, run_id="order-17"):
                raise ValueError("changed")

    with pytest.raises(ValueError, match="changed"):
        anyio.run(again)
    assert run("show", journal, "order-17") == 0
    shown = capsys.readouterr().out
    assert "ValueError: changed" in shown
    assert "life 2 began" in shown


def test_lives_that_were_traced_are_listed(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    monkeypatch.setattr("nighthawk_async.journal.run_journal.find_trace_parent", lambda: trace_parent)

    async def again() -> None:
        with nh.journal.open(f"sqlite:///{journal}") as store:
            async with nh.run(nh.testing.ScriptedModel([]), journal=store, run_id="order-17"):
                raise ValueError("changed")

    with pytest.raises(ValueError, match="changed"):
        anyio.run(again)
    assert run("show", journal, "order-17") == 0
    assert "life 2 began" in capsys.readouterr().out


def test_new_records_are_shown_as_they_come(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses > 2:
            raise KeyboardInterrupt
        if pauses == 1:
            with nh.journal.open(f"sqlite:///{journal}") as store:
                store.fork("order-17", at="run/send()[0]", to="order-18")

    monkeypatch.setattr(time, "sleep", pause)
    assert run("tail", journal, "-n", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["order-17", "5"],
        ["order-17", "6"],
        ["order-18", "1"],
        ["order-18", "2"],
        ["order-18", "3"],
    ]
    pauses = 2
    assert run("tail", journal, "order-18", "--lines", 1) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "response" in line
    assert run("tail", journal, "order-19") == 2


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("function", ["shop17:handle", "shop17.py:handle", "shop17:own_run"])
def test_a_run_is_replayed(
    journal: Path, function: str, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = journal.read_bytes()
    assert run("replay", "--backend", backend, journal, "order-17", function, "a") == 0
    assert capsys.readouterr().out == "the program has ended as recorded: 'sent A'\n"
    assert journal.read_bytes() == before
    assert not journal.with_name("elsewhere.db").exists()


def test_a_replay_that_differs_or_stops(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("replay", journal, "order-17", "shop17:handle", "b") == 1
    assert "<word>" in capsys.readouterr().err
    assert run("replay", "--until", "run/send()[0]", journal, "order-17", "shop17:handle", "a") == 0
    shown = capsys.readouterr().out
    assert "stopped before run/send()[0]" in shown
    assert "shop17.py:19, in handle" in shown
    assert run("replay", "--until", "run/other()[0]", journal, "order-17", "shop17:handle", "a") == 2
    assert "did not come to run/other()[0]" in capsys.readouterr().err
    assert run("replay", journal, "order-17", "shop17:synchronous", "a") == 1


def test_the_debugger_opens(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interaction(self: pdb.Pdb, frame: Any, error: object) -> None:
        print(f"at {frame.f_code.co_name}, loud is {frame.f_locals['loud']}")
        self.set_continue()

    monkeypatch.setattr(pdb.Pdb, "interaction", interaction)
    command = ["replay", "--until", "run/send()[0]", "--pdb", journal, "order-17", "shop17:handle", "a"]
    assert run(*command) == 0
    assert capsys.readouterr().out == "at handle, loud is A\nthe program has ended as recorded: 'sent A'\n"


def test_a_function_that_is_not_there(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for function, text in [
        ("handle", "write module:function"),
        ("shop17:other", "has no function 'other'"),
        ("shop18:handle", "there is no module 'shop18'"),
        ("shop18.py:handle", "there is no file"),
    ]:
        assert run("replay", journal, "order-17", function) == 2
        assert text in capsys.readouterr().err


def test_a_replay_records_a_cassette(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = journal.with_name("order.yaml")
    command = ["replay", "--cassette", file, journal, "order-17", "shop17:handle", "a"]
    assert run(*command) == 0
    assert run(*command) == 2
    assert "exists already" in capsys.readouterr().err
    import shop17  # pyright: ignore[reportMissingImports]

    async def replayed() -> str:
        model = AnsweringModel(lambda prompt, turn: pytest.fail("no model is needed"))
        async with nh.run(nh.AgentStepExecutor.from_model(model)):
            return await shop17.handle("a")

    with nh.testing.cassette(file, mode="none"):
        assert anyio.run(replayed) == "sent A"


def test_a_run_is_forked(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fork", journal, "order-17", "--at", "run/send()[0]", "--set", "result=sent B") == 0
    assert capsys.readouterr().out == "order-17-fork-1\n"
    assert run("replay", journal, "order-17-fork-1", "shop17:handle", "a") == 0
    assert "'sent B'" in capsys.readouterr().out
    assert run("fork", journal, "order-17", "--at", "run/send()[0]", "--to", "order-17") == 1
    assert run("fork", journal, "order-17", "--at", "run/send()[0]", "--set", "result") == 2


def test_a_run_is_copied(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = journal.with_name("order.journal")
    assert run("export", journal, "order-17", "--to", file) == 0
    assert run("list", file) == 0
    assert "order-17" in capsys.readouterr().out
    assert run("export", journal, "order-17", "--to", file) == 1
