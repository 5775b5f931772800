"""A person at the terminal of the process, who is asked there.

What is shown may come from a model, so it is text and nothing else: no markup, and no character that could
move the cursor or turn the reading direction around.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...errors import NoHumanError
from ...lazy_exports import LazyModule
from ...runtime.validation import type_name
from ...types.json import JsonableValue
from .question import Question
from .request import ApprovalRequest
from .terminal_input import check_terminal, read_line
from .typed_answer import typed_answer

if TYPE_CHECKING:
    import rich.console as rich_console
else:
    rich_console = LazyModule("rich.console")  # many programs have handlers of their own

__all__ = ["TerminalHandler"]

_YES = ("y", "yes")
_NO = ("", "n", "no")


class TerminalHandler:
    """Asks the person at the terminal, one question at a time.

    Questions go to standard error, answers are read from standard input; both have to be terminals, otherwise
    nobody is there to be asked. An answer that is no text is read as pydantic reads texts, or as JSON. An
    action is approved with `y`; everything else denies it, and is the reason unless it is `n` or nothing.

    Args:
        approver: The name under which that person approves.
        console: Where to show questions; None for standard error.
        input: Gives a line instead of standard input; for other terminals and for tests.
    """

    def __init__(
        self,
        *,
        approver: str = "terminal",
        console: "rich_console.Console | None" = None,
        input: Callable[[], str] | None = None,
    ) -> None:
        self._approver = approver
        self._given_console = console
        self._input = input

    async def ask(self, question: Question) -> object:
        """Ask a question.

        Raises:
            NoHumanError: There is no terminal, or its input has ended.
        """
        line = await self._read(partial(self._show_question, question))
        return question.default if not line and question.has_default else typed_answer(line, question)

    async def approve(self, request: ApprovalRequest) -> None:
        """Ask for an approval.

        Raises:
            NoHumanError: There is no terminal, its input has ended, or its person is not the one to approve.
        """
        if request.quorum > 1:
            raise NoHumanError(f"One person at a terminal cannot approve for {request.quorum}.")
        if request.approvers is not None and self._approver not in request.approvers:
            raise NoHumanError(f"{self._approver!r}, at the terminal, is not among the approvers.")
        answer = (await self._read(partial(self._show_request, request))).strip()
        if answer.lower() in _YES:
            request.approve(self._approver, digest=request.digest)
        else:
            request.deny(self._approver, "" if answer.lower() in _NO else answer)

    async def _read(self, show: Callable[[], None]) -> str:
        if self._input is None:
            check_terminal()
            if not self._console.file.isatty():
                raise NoHumanError("Nobody would see a question: standard error is no terminal.")
        return await read_line(
            show=show, withdraw=partial(self._print, " [no longer needed]"), typed=self._input
        )

    @property
    def _console(self) -> "rich_console.Console":
        if self._given_console is None:
            self._given_console = rich_console.Console(stderr=True)
        return self._given_console

    def _show_question(self, question: Question) -> None:
        if question.error is not None:
            self._print(question.error, style="red")
        self._print(question.prompt, style="bold")
        hints = [] if question.schema is str else [type_name(question.schema)]
        if question.has_default:
            hints.append(f"nothing for {question.default!r}")
        self._print(f"({', '.join(hints)}) > " if hints else "> ", end="")

    def _show_request(self, request: ApprovalRequest) -> None:
        self._print(_shown_arguments(request.arguments), end="")
        action = request.action.replace("\n", "\\n")  # no line of it passes for an argument
        self._print(f"Approve {action}?", style="bold")
        self._print("(y, n, or why not) > ", end="")

    def _print(self, text: str, *, style: str = "", end: str = "\n") -> None:
        from rich.text import Text

        self._console.print(Text(_visible(text), style=style), end=end, soft_wrap=True)


def _shown_arguments(arguments: Mapping[str, JsonableValue]) -> str:
    """Each argument in JSON, and so its name when it could pass for more than a name."""
    names = {name: name if name.isidentifier() else _json(name) for name in arguments}
    return "".join(f"{names[name]}: {_json(value)}\n" for name, value in arguments.items())


def _json(value: JsonableValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _visible(text: str) -> str:
    """The text, with every character written out that is not seen as one."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )
