"""`nighthawk-async journal questions|answer|approve|deny`: people answer in the terminal."""

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from tests.unit.journal.durable_runs import AnsweringModel, assigning, opened

Program = Callable[[], Awaitable[Any]]


def live(folder: Path, program: Program) -> Any:
    """One life of the run, which is parked when it waits."""

    async def one_life() -> Any:
        executor = nh.AgentStepExecutor.from_model(AnsweringModel(lambda prompt, turn: assigning("x", "1")))
        with opened(folder) as store:
            human = store.people()
            async with nh.run(executor, journal=store, run_id="order-17", park_after=0, human=human):
                return await program()

    return anyio.run(one_life)


def park(folder: Path, program: Program) -> tuple[str, str]:
    """The file of the journal, and the question that waits in it."""
    with pytest.raises(nh.journal.RunParked):
        live(folder, program)
    with opened(folder) as store:
        (question,) = store.questions()
    return str(folder / "runs.db"), question.id


async def ask() -> int:
    return await nh.ask_user("How many\x1b[1m?", schema=int)


async def approve() -> tuple[str, ...]:
    approval = await nh.request_approval("send", arguments={"to": "bob"}, quorum=2, approvers=["ada", "cy"])
    return approval.approvers


def test_a_question_is_shown_and_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, question = park(tmp_path, ask)
    assert run_command_line(["journal", "questions", file]) == 0
    shown = capsys.readouterr().out
    assert question in shown
    assert "order-17" in shown
    assert "How many\\x1b[1m?  (int)" in shown
    assert run_command_line(["journal", "answer", file, question[:8], "three"]) == 1
    assert "integer" in capsys.readouterr().err
    assert run_command_line(["journal", "answer", f"sqlite:///{file}", question[:8], "3"]) == 0
    assert run_command_line(["journal", "questions", file]) == 0
    assert capsys.readouterr().out == "answered for run order-17\nno questions\n"
    assert live(tmp_path, ask) == 3


def test_a_text_is_taken_as_it_is(tmp_path: Path) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?")

    file, question = park(tmp_path, program)
    assert run_command_line(["journal", "answer", file, question, "17"]) == 0
    assert live(tmp_path, program) == "17"


def test_people_approve_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, question = park(tmp_path, approve)
    assert run_command_line(["journal", "approve", file, question, "--as", "cy"]) == 0
    assert park(tmp_path, approve) == (file, question)
    assert run_command_line(["journal", "questions", file, "--run", "order-17"]) == 0
    shown = capsys.readouterr().out
    assert 'to: "bob"' in shown
    assert "2 of ada, cy" in shown
    assert "approved by cy" in shown
    assert run_command_line(["journal", "approve", file, question, "--as", "eve"]) == 1
    assert run_command_line(["journal", "approve", file, question, "--as", "ada"]) == 0
    assert live(tmp_path, approve) == ("cy", "ada")


def test_a_person_denies(tmp_path: Path) -> None:
    file, question = park(tmp_path, approve)
    assert run_command_line(["journal", "deny", file, question, "--as", "ada", "--reason", "too late"]) == 0
    with pytest.raises(nh.errors.ApprovalDeniedError, match="too late"):
        live(tmp_path, approve)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["answer", "{file}", "{id}", "1"], "approve or deny"),
        (["answer", "{file}", "zz", "1"], "no open question"),
        (["answer", "{file}.db", "zz", "1"], "No such file"),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], message: str
) -> None:
    file, question = park(tmp_path, approve)
    given = [part.format(file=file, id=question) for part in command]
    assert run_command_line(["journal", *given]) == 2
    assert message in capsys.readouterr().err


def test_questions_of_an_encrypted_journal_are_answered_with_the_keys_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, question = park(tmp_path, ask)
    monkeypatch.setenv("NIGHTHAWK_JOURNAL_KEYS", f"2026-11={base64.b64encode(b'k' * 32).decode()}")
    assert run_command_line(["journal", "reencrypt", file]) == 0
    assert run_command_line(["journal", "questions", file]) == 0
    assert "How many" in capsys.readouterr().out
    assert run_command_line(["journal", "answer", file, question, "3"]) == 0
    assert run_command_line(["journal", "questions", file]) == 0
    assert capsys.readouterr().out == "answered for run order-17\nno questions\n"


def test_the_questions_of_pruned_runs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, question = park(tmp_path, ask)
    assert run_command_line(["journal", "answer", file, question, "3"]) == 0
    assert live(tmp_path, ask) == 3
    capsys.readouterr()
    assert run_command_line(["journal", "prune", file, "--older", "0s"]) == 0
    assert capsys.readouterr().out.endswith(" records, 0 messages, 1 question\n")


def test_an_approval_is_remembered_listed_and_revoked_and_a_request_is_handed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = {"command": "rm -rf build"}

    async def program() -> list[str]:
        approvals = [await nh.request_approval("clean", arguments=command) for _ in range(3)]
        return [*approvals[-1].approvers]

    def live_with_roles() -> Any:
        async def one_life() -> Any:
            executor = nh.AgentStepExecutor.from_model(
                AnsweringModel(lambda prompt, turn: assigning("x", "1"))
            )
            with opened(tmp_path) as store:
                human = nh.human.with_roles(store.people(), {"manager": ["grace"]})
                async with nh.run(executor, journal=store, run_id="order-17", park_after=0, human=human):
                    return await program()

        return anyio.run(one_life)

    def waiting() -> str:
        with pytest.raises(nh.journal.RunParked):
            live_with_roles()
        with opened(tmp_path) as store:
            (question,) = store.questions()
        return question.id

    def commanded(*arguments: str) -> str:
        status = run_command_line(["journal", *arguments])
        shown = capsys.readouterr()
        return shown.out if status == 0 else f"{status} {shown.err}"

    file, question = str(tmp_path / "runs.db"), waiting()
    shown = commanded("questions", file)
    assert "risks of the command: destructive" in shown
    assert "role manager: grace" in shown
    assert commanded("remembered", file) == "no remembered approvals\n"
    assert commanded("escalate", file, question, "boss", "--as", "ada").startswith("1 ")
    shown = commanded("escalate", file, question, "manager", "--as", "ada", "--reason", "not mine")
    assert shown.endswith("handed on to manager by ada\n")
    shown = commanded("questions", file)
    assert "(1 of grace)" in shown
    assert "handed on to manager by ada: not mine" in shown
    assert commanded("approve", file, question, "--as", "ada").startswith("1 ")
    shown = commanded("approve", file, question, "--as", "grace", "--remember", "run")
    assert shown.endswith("approved by grace for equal calls of the run as well\n")
    assert live_with_roles() == ["grace"]
    assert commanded("remembered", file) == "no remembered approvals\n"  # the run has ended


def test_a_remembered_approval_is_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def program() -> None:
        for number in (1, 2):
            await nh.request_approval("send", arguments={"to": "bob"})
            await nh.request_approval("wait", arguments={"n": number})

    file, question = park(tmp_path, program)
    assert run_command_line(["journal", "approve", file, question, "--as", "ada", "--remember", "run"]) == 0
    _, other = park(tmp_path, program)
    capsys.readouterr()
    assert run_command_line(["journal", "remembered", file, "--run", "order-17"]) == 0
    assert f"{question}  run order-17\n  send  (approved by ada)\n" in capsys.readouterr().out
    assert run_command_line(["journal", "revoke", file, "x", "--as", "bob"]) == 2
    assert run_command_line(["journal", "revoke", file, question[:8], "--as", "bob"]) == 0
    assert capsys.readouterr().out.endswith("revoked by bob\n")
    assert run_command_line(["journal", "approve", file, other, "--as", "ada"]) == 0
    _, again = park(tmp_path, program)
    with opened(tmp_path) as store:
        (row,) = store.questions()
    assert (row.id, row.content["action"]) == (again, "send")
