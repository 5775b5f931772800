"""`nighthawk-async journal questions|answer|approve|deny|escalate|remembered|revoke`: people answer runs."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Literal

import anyio
import typer

from ..command_risks import risks_of_arguments
from ..errors import ConfigurationError
from ..journal import JournalStore, QuestionRow
from ..journal_ports import GivenVote
from ..policies.people.remembered import RememberedApproval
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
_REASON = Annotated[str, typer.Option("--reason", help="The reason.", metavar="TEXT")]


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


def approve_request(
    store: STORE,
    question: _QUESTION,
    person: _PERSON,
    remember: Annotated[
        Literal["run"] | None,
        typer.Option(help="`run` approves equal calls of the run as well; see `journal remembered`."),
    ] = None,
) -> None:
    """Approve an action with exactly the arguments that `journal questions` shows."""
    _vote(store, question, person, approve=True, reason="", remember=remember)


def deny_request(store: STORE, question: _QUESTION, person: _PERSON, reason: _REASON = "") -> None:
    """Deny an action, or take an approval of the same person back."""
    _vote(store, question, person, approve=False, reason=reason)


def escalate_request(
    store: STORE,
    question: _QUESTION,
    role: Annotated[str, typer.Argument(help="The role, as `journal questions` shows it.", metavar="ROLE")],
    person: _PERSON,
    reason: _REASON = "",
) -> None:
    """Hand a request for approval on to a role: from then on its people answer."""
    with open_store(store) as journal:
        row = _find(journal, question, "approval")
        anyio.run(lambda: journal.escalate(row.id, role, voter=person, reason=reason))
    typer.echo("\n".join(_lines_of(row)))
    typer.echo(f"handed on to {_shown(role)} by {person}")


def list_remembered(
    store: STORE,
    run: Annotated[str | None, typer.Option("--run", help="Only those of this run.", metavar="RUN")] = None,
) -> None:
    """List the approvals that count for equal calls of their runs, oldest first."""
    with open_store(store) as journal:
        approvals = journal.remembered(run)
    if not approvals:
        typer.echo("no remembered approvals")
    for approval in approvals:
        typer.echo("\n".join(_lines_of_remembered(approval)))


def revoke_approval(
    store: STORE,
    approval: Annotated[
        str,
        typer.Argument(
            help="The id of the approval, as `journal remembered` shows it; its beginning is enough.",
            metavar="APPROVAL",
        ),
    ],
    person: _PERSON,
    reason: _REASON = "",
) -> None:
    """Take a remembered approval back: equal calls of its run are asked about again."""
    with open_store(store) as journal:
        found = [each for each in journal.remembered() if each.id.startswith(approval)]
        if len(found) != 1:
            number = f"{len(found)} remembered approvals have" if found else "no remembered approval has"
            raise ConfigurationError(f"{number} an id that begins with {approval!r}")
        anyio.run(lambda: journal.revoke(found[0].id, by=person, reason=reason))
    typer.echo("\n".join(_lines_of_remembered(found[0])))
    typer.echo(f"revoked by {person}")


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
        "escalate": escalate_request,
        "remembered": list_remembered,
        "revoke": revoke_approval,
    }
    for name, command in commands.items():
        journal.command(name)(command)


def _vote(
    store: str,
    question: str,
    person: str,
    *,
    approve: bool,
    reason: str,
    remember: Literal["run"] | None = None,
) -> None:
    with open_store(store) as journal:
        row = _find(journal, question, "approval")

        def vote() -> Awaitable[None]:
            digest = row.content["digest"]
            return journal.vote(
                row.id, approve=approve, voter=person, digest=digest, reason=reason, remember=remember
            )

        anyio.run(vote)
    typer.echo("\n".join(_lines_of(row)))
    remembered = " for equal calls of the run as well" if remember else ""
    typer.echo(f"{'approved' if approve else 'denied'} by {person}{remembered}")


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
    people = "everybody" if row.approvers is None else _shown(", ".join(sorted(row.approvers)))
    return [
        asked,
        f"  approve {_shown(row.content['action'])}?  ({row.content['quorum']} of {people})",
        *_lines_of_arguments(row.content["arguments"]),
        *(
            f"    role {_shown(role)}: {_shown(', '.join(sorted(members)))}"
            for role, members in sorted(row.roles.items())
        ),
        *map(_line_of_vote, row.votes),
    ]


def _lines_of_remembered(approval: RememberedApproval) -> list[str]:
    first = f"{approval.id}  run {approval.run_id}"
    if approval.expires_at is not None:
        first += f"  until {time_text(approval.expires_at.timestamp())}"
    people = _shown(", ".join(vote.approver for vote in approval.approvals))
    return [
        first,
        f"  {_shown(approval.action)}  (approved by {people})",
        *_lines_of_arguments(approval.arguments),
    ]


def _lines_of_arguments(arguments: Mapping[str, object]) -> list[str]:
    """The arguments, and the risks of the command among them, if there is one."""
    risks = sorted(risks_of_arguments(arguments) or ())
    return [
        *(f"    {_shown(name)}: {_json(value)}" for name, value in arguments.items()),
        *([f"    risks of the command: {', '.join(risks)}"] if risks else []),
    ]


def _line_of_vote(vote: GivenVote) -> str:
    did = f"handed on to {_shown(vote.role)}" if vote.role else "approved" if vote.approves else "denied"
    remembered = ", for equal calls as well" if vote.is_remembered else ""
    reason = f": {_shown(vote.reason)}" if vote.reason else ""
    return f"    {did} by {_shown(vote.voter)}{remembered}{reason}"


def _shown(text: str) -> str:
    """A text on one line, without characters that could move the cursor; it may come from a model."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _json(value: object) -> str:
    return _shown(json.dumps(value, ensure_ascii=False))
