"""`nighthawk-async journal questions|answer|approve|deny`: people answer runs, parked or in progress."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import anyio
import typer

from ..errors import ConfigurationError
from ..journal import JournalStore, QuestionRow
from .journal_commands import STORE, time_text
from .journal_store import open_store

_QUESTION = Annotated[
    str,
    typer.Argument(
        help="The id of the question, as `journal questions` shows it; its beginning is enough.",
        metavar="QUESTION",
    ),
]
_PERSON = Annotated[str, typer.Option("--as", help="The name of the person who votes.", metavar="NAME")]


def list_questions(
    store: STORE,
    run: Annotated[str | None, typer.Option("--run", help="Only those of this run.", metavar="RUN")] = None,
) -> None:
    """List the questions and requests for approval that wait for people, oldest first."""
    with open_store(store) as journal:
        rows = journal.questions(run)
    if not rows:
        typer.echo("no questions")
    for row in rows:
        typer.echo("\n".join(_lines_of(row)))


def answer_question(
    store: STORE,
    question: _QUESTION,
    value: Annotated[
        str, typer.Argument(help="The answer: JSON, or a text where one is asked for.", metavar="VALUE")
    ],
) -> None:
    """Answer a question."""
    with open_store(store) as journal:
        row = _find(journal, question, "question")
        anyio.run(lambda: journal.answer(row.id, _value_of(value, row)))
    typer.echo(f"answered for run {row.run_id}")


def approve_request(store: STORE, question: _QUESTION, person: _PERSON) -> None:
    """Approve an action with exactly the arguments that `journal questions` shows."""
    _vote(store, question, person, approve=True, reason="")


def deny_request(
    store: STORE,
    question: _QUESTION,
    person: _PERSON,
    reason: Annotated[str, typer.Option("--reason", help="The reason.", metavar="TEXT")] = "",
) -> None:
    """Deny an action, or take an approval of the same person back."""
    _vote(store, question, person, approve=False, reason=reason)


def add_question_commands(journal: typer.Typer) -> None:
    """Add the commands to the group.

    Args:
        journal: The group `nighthawk-async journal`.
    """
    commands: dict[str, Callable[..., None]] = {
        "questions": list_questions,
        "answer": answer_question,
        "approve": approve_request,
        "deny": deny_request,
    }
    for name, command in commands.items():
        journal.command(name)(command)


def _vote(store: str, question: str, person: str, *, approve: bool, reason: str) -> None:
    with open_store(store) as journal:
        row = _find(journal, question, "approval")

        def vote() -> Awaitable[None]:
            digest = row.content["digest"]
            return journal.vote(row.id, approve=approve, voter=person, digest=digest, reason=reason)

        anyio.run(vote)
    typer.echo("\n".join(_lines_of(row)))
    typer.echo(f"{'approved' if approve else 'denied'} by {person}")


def _find(journal: JournalStore, question: str, kind: Literal["question", "approval"]) -> QuestionRow:
    rows = [row for row in journal.questions() if row.id.startswith(question)]
    if len(rows) != 1:
        number = f"{len(rows)} open questions have" if rows else "no open question has"
        raise ConfigurationError(f"{number} an id that begins with {question!r}")
    if rows[0].kind != kind:
        remedy = "approve or deny it" if kind == "question" else "answer it"
        raise ConfigurationError(f"{question} is a {_KINDS[rows[0].kind]}: {remedy}")
    return rows[0]


_KINDS = {"question": "question", "approval": "request for approval"}


def _value_of(value: str, row: QuestionRow) -> object:
    """The typed value: JSON, or the text itself where it is none or a text is asked for."""
    if (row.schema or {}).get("type") == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _lines_of(row: QuestionRow) -> list[str]:
    asked = f"{row.id}  run {row.run_id}  asked {time_text(row.asked_at)}"
    if row.expires_at is not None:
        asked += f"  until {time_text(row.expires_at)}"
    if row.kind == "question":
        return [asked, f"  {_shown(row.content['prompt'])}  ({_shown(row.content['type'])})"]
    people = row.content["approvers"]
    arguments = [f"    {_shown(name)}: {_json(value)}" for name, value in row.content["arguments"].items()]
    votes = [
        f"    {'approved' if vote.approves else 'denied'} by {_shown(vote.voter)}"
        + (f": {_shown(vote.reason)}" if vote.reason else "")
        for vote in row.votes
    ]
    return [
        asked,
        f"  approve {_shown(row.content['action'])}?  "
        f"({row.content['quorum']} of {'everybody' if people is None else _shown(', '.join(people))})",
        *arguments,
        *votes,
    ]


def _shown(text: str) -> str:
    """A text on one line, without characters that could move the cursor; it may come from a model."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _json(value: object) -> str:
    return _shown(json.dumps(value, ensure_ascii=False))
