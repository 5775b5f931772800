"""The person at the terminal: one question at a time, nothing but text, and nobody without a terminal."""

import io
import os
import pty
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel
from rich.console import Console

from nighthawk_async.errors import ApprovalDeniedError, ConfigurationError, NoHumanError
from nighthawk_async.policies.people.approvals import request_approval
from nighthawk_async.policies.people.errors import InvalidAnswerError
from nighthawk_async.policies.people.questions import ask_user
from nighthawk_async.policies.people.request import Question
from nighthawk_async.policies.people.roles import Role, with_roles
from nighthawk_async.policies.people.terminal import TerminalHandler

from .human_handlers import approving, run_asking

pytestmark = pytest.mark.anyio


class Address(BaseModel):
    street: str
    number: int


class Screen:
    """A terminal whose person types the given lines, and what was shown on it."""

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)
        self._shown = io.StringIO()
        self.asked = 0

    def handler(self, **arguments: Any) -> TerminalHandler:
        console = Console(file=self._shown, width=80)
        return TerminalHandler(console=console, input=self._type, **arguments)

    @property
    def shown(self) -> str:
        return self._shown.getvalue()

    def _type(self) -> str:
        self.asked += 1
        line = next(self._lines, None)
        if line is None:
            raise EOFError
        return line


async def test_a_question_is_shown_and_its_line_is_the_answer() -> None:
    screen = Screen("  blue ")
    async with run_asking(screen.handler()):
        assert await ask_user("Which [bold]colour[/bold] :smile:?") == "  blue "
    assert screen.shown == "Which [bold]colour[/bold] :smile:?\n> "


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        pytest.param(int, " 3 ", 3, id="a number"),
        pytest.param(bool, "y", True, id="yes"),
        pytest.param(Literal["a", "b"], "b", "b", id="one of some words"),
        pytest.param(Literal[1, 2], "2", 2, id="one of some numbers"),
        pytest.param(list[str], '["a"]', ["a"], id="a list"),
        pytest.param(
            Address, '{"street": "Elm", "number": 1}', Address(street="Elm", number=1), id="a model"
        ),
        pytest.param(int | None, "null", None, id="nothing where that is an answer"),
    ],
)
async def test_a_line_is_read_as_what_is_asked_for(schema: object, line: str, value: object) -> None:
    screen = Screen(line)
    async with run_asking(screen.handler()):
        assert await ask_user("?", schema=schema) == value


async def test_a_line_that_does_not_fit_is_asked_for_again_with_the_reason() -> None:
    screen = Screen("three", "3")
    async with run_asking(screen.handler()):
        assert await ask_user("How many?", schema=int) == 3
    assert screen.shown.count("How many?\n(int) > ") == 2
    assert "must be int" in screen.shown


async def test_three_lines_that_do_not_fit_are_enough() -> None:
    screen = Screen("a", "b", "c", "4")
    async with run_asking(screen.handler()):
        with pytest.raises(InvalidAnswerError):
            await ask_user("How many?", schema=int)
    assert screen.asked == 3


async def test_an_empty_line_is_the_default_where_there_is_one() -> None:
    screen = Screen("", "")
    async with run_asking(screen.handler()):
        assert await ask_user("How many?", schema=int, default=7) == 7
        assert await ask_user("Your name?") == ""
    assert "(int, Enter for 7) > " in screen.shown


@pytest.mark.parametrize("line", ["y", "Yes", " YES "])
async def test_yes_approves_in_the_name_of_the_person(line: str) -> None:
    screen = Screen(line)
    async with run_asking(screen.handler(approver="ada")):
        approval = await request_approval("send mail", arguments={"to": ["bob"]}, approvers=["ada", "cy"])
    assert approval.approvers == ("ada",)
    assert screen.shown == 'to: [\n  "bob"\n]\nApprove send mail?\n(y, n, or why not) > '


@pytest.mark.parametrize(
    ("line", "reason"),
    [("n", ""), ("", ""), ("No", ""), ("yes but later", "yes but later"), ("not today", "not today")],
)
async def test_everything_else_denies(line: str, reason: str) -> None:
    async with run_asking(Screen(line).handler()):
        with pytest.raises(ApprovalDeniedError) as caught:
            await request_approval("send mail")
    assert (caught.value.approver, caught.value.reason) == ("terminal", reason)


@pytest.mark.parametrize(
    "arguments", [{"quorum": 2}, {"approvers": ["ada"]}], ids=["two people", "somebody else"]
)
async def test_what_the_person_may_not_decide_is_denied_without_a_question(arguments: dict[str, Any]) -> None:
    screen = Screen("y")
    async with run_asking(screen.handler()):
        with pytest.raises(NoHumanError):
            await request_approval("send mail", **arguments)
    assert screen.asked == 0


async def test_what_is_shown_cannot_move_the_cursor_or_turn_the_reading_direction() -> None:
    screen = Screen("n")
    async with run_asking(screen.handler()):
        with pytest.raises(ApprovalDeniedError):
            await request_approval(
                "delete\x1b[2J\r\u202eall\x9b1A", arguments={"to\x07": "a\x1b[31m\u2066\u200bb", "n": "x\ny"}
            )
    shown = screen.shown
    assert [each for each in shown if not each.isprintable() and each != "\n"] == []
    assert "Approve delete\\x1b[2J\\r\\u202eall\\x9b1A?" in shown
    assert r'"a\u001b[31m\u2066\u200bb"' in shown
    assert r'"x\ny"' in shown


async def test_names_and_actions_cannot_forge_lines() -> None:
    arguments = {"to": "eve", 'x: 1\nto: "bob"\nbody': "hi", "c: 1, d": "x\ny", "": 0}
    screen = Screen("n")
    async with run_asking(screen.handler()):
        with pytest.raises(ApprovalDeniedError):
            await request_approval('send\nto: "bob"\n', arguments=arguments)
    assert screen.shown.splitlines() == [
        'to: "eve"',
        r'"x: 1\nto: \"bob\"\nbody": "hi"',
        r'"c: 1, d": "x\ny"',
        '"": 0',
        r'Approve send\nto: "bob"\n?',
        "(y, n, or why not) > ",
    ]


async def test_when_the_input_has_ended_nobody_is_there() -> None:
    async with run_asking(Screen().handler()):
        assert await ask_user("Now?", default="later") == "later"
        with pytest.raises(ApprovalDeniedError, match="has ended"):
            await request_approval("send mail")


async def test_questions_of_several_steps_are_asked_one_after_the_other() -> None:
    """Each line is taken as the answer to what was shown last before it; those that wait hold no thread."""
    shown = io.StringIO()
    overlapping: list[bool] = []
    is_asking = threading.Lock()
    threads = anyio.to_thread.current_default_thread_limiter()

    def echo() -> str:
        overlapping.append(not is_asking.acquire(blocking=False) or threads.borrowed_tokens > 1)
        prompt = shown.getvalue().splitlines()[-2].removeprefix("> ")
        is_asking.release()
        return prompt

    handler = TerminalHandler(console=Console(file=shown), input=echo)
    answers: dict[str, str] = {}

    async def ask(prompt: str) -> None:
        answers[prompt] = await ask_user(prompt)

    prompts = [f"question {number}" for number in range(10)]
    async with run_asking(handler), anyio.create_task_group() as tasks:
        for prompt in prompts:
            tasks.start_soon(ask, prompt)
    assert answers == {prompt: prompt for prompt in prompts}
    assert not any(overlapping)


def test_event_loops_take_turns_and_a_cancelled_wait_for_the_turn_ends() -> None:
    is_first_asked, may_answer = threading.Event(), threading.Event()
    shown = io.StringIO()

    def first() -> str:
        is_first_asked.set()
        may_answer.wait(240)
        return "first"

    async def ask(handler: TerminalHandler, seconds: float | None) -> str:
        async with run_asking(handler):
            return await ask_user("?", timeout=seconds, default="nobody")

    answers: list[str] = []
    console = Console(file=shown)
    thread = threading.Thread(
        target=lambda: answers.append(anyio.run(ask, TerminalHandler(console=console, input=first), None))
    )
    thread.start()
    assert is_first_asked.wait(240)
    second = TerminalHandler(console=console, input=lambda: "second")
    assert anyio.run(ask, second, 0.01, backend="trio") == "nobody"
    assert shown.getvalue().count("?") == 1, "the second question was not shown"
    may_answer.set()
    thread.join(240)
    assert anyio.run(ask, second, None, backend="trio") == "second"
    assert answers == ["first"]


@pytest.mark.parametrize(
    "stdin", [io.StringIO("y\n"), None, pytest.param("closed", id="closed"), pytest.param("file", id="file")]
)
async def test_without_a_terminal_nobody_is_there(
    stdin: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    path = tmp_path / "lines"
    path.write_text("y\n", encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        if stdin == "closed":
            stdin = io.StringIO()
            stdin.close()
        monkeypatch.setattr(sys, "stdin", file if stdin == "file" else stdin)
        async with run_asking(TerminalHandler()):
            with pytest.raises(ApprovalDeniedError, match="no terminal"):
                await request_approval("send mail")
            assert await ask_user("Now?", default="later") == "later"


class Keyboard:
    """The other side of a pseudo-terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        """Read what the terminal shows until a text has come; what follows is kept."""
        while text not in self._seen:
            self._seen += os.read(self._descriptor, 4096).decode()
        self._seen = self._seen.partition(text)[2]

    async def see(self, text: str) -> None:
        await anyio.to_thread.run_sync(self.wait_for, text)


@contextmanager
def terminal() -> Generator[tuple[Keyboard, TerminalHandler], None, None]:
    """A pseudo-terminal on standard input, and a handler that shows its questions on it."""
    keyboard, descriptor = pty.openpty()
    before = sys.stdin
    try:
        with open(descriptor, "r+b", buffering=0, closefd=False) as raw:
            sys.stdin = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
            console = Console(file=sys.stdin, width=80, color_system=None)
            yield Keyboard(keyboard), TerminalHandler(console=console)
            sys.stdin.detach()
    finally:
        sys.stdin = before
        os.close(keyboard)
        os.close(descriptor)


@pytest.fixture
def keyboard_and_handler() -> Iterator[tuple[Keyboard, TerminalHandler]]:
    with terminal() as both:
        yield both


async def test_a_real_terminal_is_asked(keyboard_and_handler: tuple[Keyboard, TerminalHandler]) -> None:
    keyboard, handler = keyboard_and_handler

    async def person() -> None:
        await keyboard.see("Which colour?")
        await keyboard.see("> ")
        keyboard.type("blu\x7fue\nred\n")  # a key that takes a letter back, and a line too many
        await keyboard.see("Approve paint?")
        await keyboard.see("> ")
        keyboard.type("y\n")

    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(person)
        assert await ask_user("Which colour?") == "blue"
        assert (await request_approval("paint")).approvers == ("terminal",)


async def test_a_cancelled_question_takes_no_line_of_the_next(
    keyboard_and_handler: tuple[Keyboard, TerminalHandler],
) -> None:
    keyboard, handler = keyboard_and_handler

    async def ask_in_vain(scope: anyio.CancelScope) -> None:
        with scope:
            await ask_user("In vain?")

    async with run_asking(handler), anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        tasks.start_soon(ask_in_vain, scope)
        await keyboard.see("In vain?")
        await keyboard.see("> ")
        keyboard.type("half a li")
        await keyboard.see("half a li")
        scope.cancel()
        await keyboard.see("no longer needed")
        tasks.start_soon(_type_after, keyboard, "Now?", "yes\n")
        assert await ask_user("Now?") == "yes"


async def test_the_end_of_the_input_of_a_terminal_means_nobody(
    keyboard_and_handler: tuple[Keyboard, TerminalHandler],
) -> None:
    keyboard, handler = keyboard_and_handler
    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(_type_after, keyboard, "Now?", "\x04")
        with pytest.raises(NoHumanError, match="has ended"):
            await ask_user("Now?")


async def test_nobody_would_see_a_question_that_is_not_shown_on_a_terminal(
    keyboard_and_handler: tuple[Keyboard, TerminalHandler],
) -> None:
    async with run_asking(TerminalHandler(console=Console(file=io.StringIO()))):
        with pytest.raises(NoHumanError, match="would see"):
            await ask_user("Now?")


async def _type_after(keyboard: Keyboard, prompt: str, text: str) -> None:
    await keyboard.see(prompt)
    await keyboard.see("> ")
    keyboard.type(text)


async def test_without_rich_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nighthawk_async.policies.people.terminal.find_spec", lambda name: None)
    handler = TerminalHandler(input=lambda: "yes")
    with pytest.raises(ConfigurationError, match=r"nighthawk-async\[cli\]"):
        await handler.ask(Question(id="1", prompt="Really?"))


async def test_the_person_approves_for_good_and_hands_on() -> None:
    screen = Screen("y", "always", "escalate boss", "escalate manager")
    handler = with_roles(screen.handler(approver="ada"), {"manager": Role(["grace"], approving(["grace"]))})
    async with run_asking(handler):
        for _ in range(3):
            await request_approval("clean", arguments={"command": "rm -rf build"})
        assert screen.asked == 2
        approval = await request_approval("pay")
    assert approval.approvers == ("grace",)
    assert "risks of the command: destructive\n" in screen.shown
    assert "(y, escalate manager, n, or why not) > " in screen.shown
    assert "(y, always in this run, escalate manager, n, or why not) > " in screen.shown
    assert "there is no role 'boss'" in screen.shown
