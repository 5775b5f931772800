"""The tables of questions to people: what is asked, and what people have answered through the store.

    open ── the store takes an answer, or votes that decide ──> answered ── the run refuses it ──> open
      ├──── the run has got an answer by itself ──> claimed ── its process ended first ──> open
      └──── the run waits no longer ──> closed ── the next life waits again ──> open

    a request that was approved for equal calls ──> remembered ── a person ──> revoked

Statements that change a question come after `tables.wake_run` in their transaction, or have one of their own:
so no two processes wait for each other's rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from ..journal_ports import AskedQuestion, GivenVote
from .blob_table import begin_writing, check_gaps, index_of, load_body, store_body
from .database import Database
from .values import ValueRules, decode_value, encode_value

MIGRATION = (
    """
CREATE TABLE questions (
    question_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    asked_at {real} NOT NULL,
    ends_at {real},
    body {bytes} NOT NULL,
    answer {bytes}
){table_options}
""",
    "CREATE INDEX questions_by_run ON questions (run_id, status)",
    """
CREATE TABLE votes (
    question_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    has_counted INTEGER NOT NULL DEFAULT 0,
    body {bytes} NOT NULL,
    PRIMARY KEY (question_id, number)
){table_options}
""",
)
"""The statements that make the tables; see `tables.migrate`."""


BLOB_MIGRATION = (
    index_of("questions_by_body_blob", "questions", "body"),
    index_of("questions_by_answer_blob", "questions", "answer"),
    index_of("votes_by_blob", "votes", "body"),
)
"""The statements that make the indexes of large bodies; see `tables.migrate`."""


class QuestionRow(Struct, frozen=True, kw_only=True):
    """A question to people that a run waits for, as the store keeps it.

    Args:
        id: Its id, the same in every life of the run.
        run_id: The run.
        kind: `question` for `ask_user`, `approval` for `request_approval`.
        status: `open` while it can be answered.
        content: Its parts. Those of a question: `prompt` and `type`. Those of a request for approval:
            `action`, `arguments`, `digest`, `quorum`, and `approvers`, None for everybody; and `roles`, the
            people by role, where it may be handed on.
        schema: The JSON schema of the answers to a question; None where there is none.
        asked_at: The time at which it was first waited for, in seconds since 1970.
        expires_at: The time at which it ends without an answer, in seconds since 1970; None for never.
        votes: The votes that the store has taken, in order.
    """

    id: str
    run_id: str
    kind: Literal["question", "approval"]
    status: str
    content: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    asked_at: float
    expires_at: float | None
    votes: tuple[GivenVote, ...] = ()

    @property
    def roles(self) -> Mapping[str, frozenset[str]]:
        """The people of the roles that a request may be handed on to."""
        given: Mapping[str, Sequence[str]] = self.content.get("roles", {})
        return {name: frozenset(people) for name, people in given.items()}

    @property
    def role(self) -> str | None:
        """The role that a request was handed on to last, through the store; None for none."""
        return next((vote.role for vote in reversed(self.votes) if vote.role), None)

    @property
    def approvers(self) -> frozenset[str] | None:
        """The people who may answer a request now; None for everybody."""
        if self.role is not None:
            return self.roles.get(self.role, frozenset())
        asked: Sequence[str] | None = self.content["approvers"]
        return None if asked is None else frozenset(asked)


class RememberedRow(NamedTuple):
    """A request whose approval counts for equal calls, and that approval, encoded."""

    row: QuestionRow
    approval: bytes


def encode_question(asked: AskedQuestion, place: str, rules: ValueRules) -> bytes:
    """Write what is shown of a question.

    Raises:
        JournalValueError: It is no plain data, or too large.
    """
    return encode_value([asked.kind, dict(asked.content), asked.schema], place=place, rules=rules)


def open_question(database: Database, run_id: str, asked: AskedQuestion, body: bytes) -> None:
    """Let a question be answered, within a transaction of the caller; an answer that was given stays."""
    begin_writing(database, body)
    stored = store_body(database, body, "questions", "body", asked.id, signed=(run_id, asked.ends_at))
    database.change(
        "INSERT INTO questions (question_id, run_id, status, asked_at, ends_at, body) "
        f"VALUES (?, ?, 'open', {database.NOW}, ?, ?) ON CONFLICT (question_id) DO NOTHING",
        *(asked.id, run_id, asked.ends_at, stored),
    )
    database.change(
        "UPDATE questions SET status = 'open' WHERE question_id = ? "
        "AND status NOT IN ('answered', 'remembered', 'revoked')",
        asked.id,
    )


def close_question(database: Database, question_id: str) -> None:
    """Accept no answer any more."""
    database.change(
        "UPDATE questions SET status = 'closed' WHERE question_id = ? AND status = 'open'", question_id
    )


def close_questions(database: Database, run_id: str) -> None:
    """Accept no answers to the questions of a run, which has ended."""
    database.change(
        "UPDATE questions SET status = 'closed' WHERE run_id = ? AND status IN ('open', 'remembered')", run_id
    )


def remember_approval(database: Database, question_id: str, approval: bytes) -> None:
    """Let an approval count for equal calls of its run, unless it was revoked.

    Args:
        database: The database.
        question_id: The request.
        approval: What was to run and the approvals, encoded.
    """
    begin_writing(database, approval)
    stored = store_body(database, approval, "questions", "answer", question_id)
    database.change(
        "UPDATE questions SET status = 'remembered', answer = ? "
        "WHERE question_id = ? AND status <> 'revoked'",
        *(stored, question_id),
    )


def read_remembered(database: Database, run_id: str | None = None) -> list[RememberedRow]:
    """Read the approvals that count for equal calls, in the order in which they were asked for.

    Args:
        database: The database.
        run_id: The run; None for all runs.
    """
    condition, parameters = ("AND run_id = ?", (run_id,)) if run_id is not None else ("", ())
    rows = database.query(
        "SELECT question_id, run_id, status, asked_at, ends_at, body, answer FROM questions "
        f"WHERE status = 'remembered' {condition} AND (ends_at IS NULL OR ends_at > {database.NOW}) "
        "ORDER BY asked_at, question_id",
        *parameters,
    )
    return [
        RememberedRow(_row_of(database, *row), load_body(database, answer, "questions", "answer", row[0]))
        for *row, answer in rows
    ]


def revoke_approval(database: Database, question_id: str, vote: GivenVote) -> None:
    """Let a remembered approval count for no further call, and keep who says so beside the votes."""
    give_vote(database, question_id, vote, is_last=False)
    database.change(
        "UPDATE questions SET status = 'revoked' WHERE question_id = ? AND status = 'remembered'", question_id
    )


def claim_question(database: Database, question_id: str) -> bool:
    """Accept no answer any more; return False if one was given."""
    statement = "UPDATE questions SET status = 'claimed' WHERE question_id = ? AND status <> 'answered'"
    return database.change(statement, question_id) == 1


def find_answer(database: Database, question_id: str) -> bytes | None:
    """Return the answer that was given, encoded; None for none."""
    rows = database.query(
        "SELECT answer FROM questions WHERE question_id = ? AND status = 'answered' AND answer IS NOT NULL",
        question_id,
    )
    return load_body(database, rows[0][0], "questions", "answer", question_id) if rows else None


def has_news(database: Database, question_id: str) -> bool:
    """Whether people have answered, and the run has not noticed."""
    if find_answer(database, question_id) is not None:
        return True
    return bool(
        database.query("SELECT 1 FROM votes WHERE question_id = ? AND has_counted = 0 LIMIT 1", question_id)
    )


def refuse_answer(database: Database, question_id: str) -> None:
    """Drop the answer that was given, and accept another one."""
    database.change(
        "UPDATE questions SET status = 'open', answer = NULL WHERE question_id = ? AND status = 'answered'",
        question_id,
    )


def give_answer(database: Database, question_id: str, answer: bytes) -> None:
    """Take an answer to an open question."""
    stored = store_body(database, answer, "questions", "answer", question_id)
    database.change(
        "UPDATE questions SET status = 'answered', answer = ? WHERE question_id = ?", stored, question_id
    )


def give_vote(
    database: Database, question_id: str, vote: GivenVote, *, is_last: bool, has_counted: bool = False
) -> None:
    """Take a vote on an open request.

    Args:
        database: The database.
        question_id: The request.
        vote: The vote.
        is_last: Whether the votes that the store has taken decide.
        has_counted: Whether the run has counted it already.
    """
    body = store_body(database, msgspec.msgpack.encode(vote), "votes", question_id, vote.number)
    database.change(
        "INSERT INTO votes (question_id, number, body, has_counted) VALUES (?, ?, ?, ?)",
        *(question_id, vote.number, body, int(has_counted)),
    )
    if is_last:
        database.change("UPDATE questions SET status = 'answered' WHERE question_id = ?", question_id)


def next_vote(database: Database, question_id: str, after: int) -> GivenVote | None:
    """Read the first vote after a number that has not counted; None for none.

    With an audit key, the records alone say what has counted: nobody signs the column. One that was refused
    is refused again.
    """
    is_new = "" if database.audit.key_name else "AND has_counted = 0 "
    rows = database.query(
        f"SELECT number, body FROM votes WHERE question_id = ? AND number > ? {is_new}"
        "ORDER BY number LIMIT 1",
        *(question_id, after),
    )
    if rows and database.audit.key_name:
        given = database.query(
            "SELECT number FROM votes WHERE question_id = ? AND number <= ? ORDER BY number",
            *(question_id, rows[0][0]),
        )
        check_gaps(database, f"the votes on question {question_id}", 0, [number for (number,) in given])
    return _load_vote(database, question_id, *rows[0]) if rows else None


def _load_vote(database: Database, question_id: str, number: int, stored: bytes) -> GivenVote:
    body = load_body(database, stored, "votes", question_id, number)
    return msgspec.msgpack.decode(body, type=GivenVote)


def note_counted(database: Database, question_id: str, number: int) -> None:
    """Note that a vote has counted, and has not decided the request, which accepts others."""
    database.change(
        "UPDATE votes SET has_counted = 1 WHERE question_id = ? AND number <= ?", question_id, number
    )
    database.change(
        "UPDATE questions SET status = 'open' WHERE question_id = ? AND status = 'answered' AND NOT EXISTS "
        "(SELECT 1 FROM votes WHERE question_id = ? AND has_counted = 0)",
        *(question_id, question_id),
    )


def read_questions(
    database: Database, *, run_id: str | None = None, question_id: str | None = None, locks: bool = False
) -> list[QuestionRow]:
    """Read questions, in the order in which they were asked.

    Args:
        database: The database.
        run_id: The run whose open questions are read; None for those of all runs.
        question_id: The question to read, open or not.
        locks: Whether the rows are locked until the transaction ends.
    """
    condition, parameters = "status = 'open'", list[object]()
    if question_id is not None:
        condition, parameters = "question_id = ?", [question_id]
    elif run_id is not None:
        condition, parameters = "status = 'open' AND run_id = ?", [run_id]
    rows = database.query(
        "SELECT question_id, run_id, "
        f"CASE WHEN status = 'open' AND ends_at <= {database.NOW} THEN 'expired' ELSE status END, "
        f"asked_at, ends_at, body FROM questions WHERE {condition} ORDER BY asked_at, question_id"
        f"{database.FOR_UPDATE if locks else ''}",
        *parameters,
    )
    return [_row_of(database, *row) for row in rows if question_id is not None or row[2] == "open"]


def _row_of(
    database: Database,
    question_id: str,
    run_id: str,
    status: str,
    asked_at: float,
    ends_at: float | None,
    stored: bytes,
) -> QuestionRow:
    body = load_body(database, stored, "questions", "body", question_id, signed=(run_id, ends_at))
    kind, content, schema = decode_value(body, place="")
    votes = database.query(
        "SELECT number, body FROM votes WHERE question_id = ? ORDER BY number", question_id
    )
    check_gaps(database, f"the votes on question {question_id}", 0, [number for number, _ in votes])
    return QuestionRow(
        id=question_id,
        run_id=run_id,
        kind=kind,
        status=status,
        content=content,
        schema=schema,
        asked_at=asked_at,
        expires_at=ends_at,
        votes=tuple(_load_vote(database, question_id, *vote) for vote in votes),
    )
