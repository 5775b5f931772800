"""The runs of a store as one tree that follows the store, for those who watch runs of other processes."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct

from ..actors.errors import check_whole_number
from ..observe.page.summaries import ANSWERABLE
from ..observe.restored_tree import RestoredNode, RestoredTree
from ..policies.people.remembered import RememberedApproval
from . import tables
from .database import Database
from .errors import JournalError, JournalStoreError
from .question_table import QuestionRow
from .questions import QuestionRecord, question_id
from .records import Record
from .run_tree import nodes_of, run_node_id
from .tables import RunRow

if TYPE_CHECKING:
    from .store import JournalStore

POLL_SECONDS = 1.0
"""The time between two looks into the store."""

_REST = 9
"""The pause after a look, as a multiple of its time: looks take a tenth of the time of the store's thread."""

_IS_OPEN = "status IN ('running', 'parked', 'stuck')"
_NEWEST_FIRST = f"{_IS_OPEN} DESC, CASE WHEN {_IS_OPEN} THEN created_at ELSE updated_at END DESC, run_id DESC"

Result = TypeVar("Result")
Given = ParamSpec("Given")


class LatestRuns(Struct, frozen=True, kw_only=True):
    """The latest runs of a store.

    Args:
        rows: The runs, in the order of their first lives.
        record_counts: The numbers of their records, by run.
        total: The number of all runs.
    """

    rows: Sequence[RunRow]
    record_counts: dict[str, int]
    total: int


def read_latest_runs(database: Database, most: int) -> LatestRuns:
    """Read the runs that have not ended, the newest first, then those that have ended last.

    Args:
        database: The database.
        most: The maximum number of runs.
    """
    # The number of linked records is that of all records.
    counts: dict[str, int] = dict(
        database.query(f"SELECT run_id, linked FROM runs ORDER BY {_NEWEST_FIRST} LIMIT ?", most)
    )
    ((total,),) = database.query("SELECT COUNT(*) FROM runs")
    return LatestRuns(rows=tables.read_runs(database, [*counts]), record_counts=counts, total=total)


class _ShownRun(Struct):
    """One run of the tree, as it was read last."""

    seen: object = None
    records: list[Record] = msgspec.field(default_factory=list[Record])
    question_nodes: dict[str, QuestionRow] = msgspec.field(default_factory=dict[str, QuestionRow])
    remembered_nodes: dict[str, RememberedApproval] = msgspec.field(
        default_factory=dict[str, RememberedApproval]
    )


class _Asked(NamedTuple):
    """The open questions of a run, and the approvals that are remembered."""

    questions: list[QuestionRow]
    remembered: list[RememberedApproval]


class StoreTree:
    """The tree of the runs of a store, which is brought up to date on demand. Thread-safe.

    Runs are children of the root node, in the order in which they came into the tree. A node has the same id
    in all processes. Only runs that have changed are read again.

    Args:
        store: The store.
        max_runs: The maximum number of runs: those that have not ended, then those that ended last.

    Attributes:
        tree: The tree.
        error: The reason why the store cannot be read now; None where it can.

    Raises:
        ValueError: The maximum is no whole number, or too small.
    """

    def __init__(self, store: "JournalStore", *, max_runs: int = 200) -> None:
        check_whole_number("max_runs", max_runs, least=1)
        self._store = store
        self._max_runs = max_runs
        self._restored = RestoredTree()
        self.tree = self._restored.tree
        self.error: str | None = None
        self._lock = threading.Lock()
        self._due = 0.0
        self._runs: dict[str, _ShownRun] = {}
        self._questions: dict[str, QuestionRow] = {}  # by node; replaced, never changed
        self.remembered_nodes: Mapping[str, RememberedApproval] = {}
        """The approvals that are remembered for equal calls, by node; replaced, never changed."""

    def find_question(self, node_id: str) -> QuestionRow | None:
        """Return the open question at a node; None for none."""
        return self._questions.get(node_id)

    def find_remembered(self, node_id: str) -> RememberedApproval | None:
        """Return the approval at a node that is remembered for equal calls; None for none."""
        return self.remembered_nodes.get(node_id)

    def make_due(self) -> None:
        """Have the next `refresh` look into the store, however short ago the last one was."""
        self._due = 0.0

    async def refresh(self) -> None:
        """Bring the tree up to date, unless that was done a short time ago. Sets `error`, and raises none."""
        if time.monotonic() >= self._due:
            await to_thread.run_sync(self.refresh_in_thread)

    async def follow(self) -> None:
        """Keep the tree up to date, as long as the store can be read."""
        while self.error is None:
            await anyio.sleep(max(POLL_SECONDS, self._due - time.monotonic()))
            await self.refresh()

    def refresh_in_thread(self) -> None:
        """Do as `refresh` does, and block meanwhile."""
        with self._lock:
            began = time.monotonic()
            if began < self._due:
                return
            self._due = began
            try:
                self._read()
                self.error = None
            except JournalError as error:
                self.error = str(error)
            ended = time.monotonic()
            if self._due == began:  # `make_due` was not called meanwhile
                self._due = ended + max(POLL_SECONDS, _REST * (ended - began))

    def _read(self) -> None:
        # Questions first: every one of them has its record by the time at which the records are read.
        questions: dict[str, list[QuestionRow]] = {}
        for question in self._store.questions():
            questions.setdefault(question.run_id, []).append(question)
        remembered: dict[str, list[RememberedApproval]] = {}
        for approval in self._store.remembered():
            remembered.setdefault(approval.run_id, []).append(approval)
        latest = self._perform(read_latest_runs, most=self._max_runs)
        shown = {row.run_id for row in latest.rows}
        for run_id in self._runs.keys() - shown:
            del self._runs[run_id]
            self._restored.remove(run_node_id(run_id))
        try:
            for row in latest.rows:
                asked = _Asked(questions.get(row.run_id, []), remembered.get(row.run_id, []))
                self._read_run(row, latest.record_counts[row.run_id], asked)
        finally:
            runs = self._runs.values()
            self._questions = {node: row for run in runs for node, row in run.question_nodes.items()}
            self.remembered_nodes = {
                node: approval for run in runs for node, approval in run.remembered_nodes.items()
            }
        self._restored.count_left_out(latest.total - len(latest.rows))

    def _read_run(self, row: RunRow, record_count: int, asked: "_Asked") -> None:
        run = self._runs.setdefault(row.run_id, _ShownRun())
        # A run in progress changes with its lease, too.
        seen = (row if row.status != "running" else row.lives, row.status, record_count, asked)
        if run.seen == seen:
            return
        try:
            nodes = self._nodes_of(run, row)
        except JournalStoreError:
            raise
        except (JournalError, msgspec.MsgspecError) as error:
            nodes = [_unreadable(row, error)]
        ids = _question_ids(row.run_id, run.records) if any(asked) else {}
        nodes, run.question_nodes = _with_questions(nodes, ids, asked.questions)
        run.remembered_nodes = _remembered_at(nodes, ids, asked.remembered)
        self._restored.put_whole(nodes)
        run.seen = seen

    def _nodes_of(self, run: _ShownRun, row: RunRow) -> list[RestoredNode]:
        after = run.records[-1].seq if run.records and row.pruned_at is None else 0
        more = self._perform(tables.read_records, run_id=row.run_id, after=after)
        records = [*(run.records if after else ()), *more]
        is_open = row.status in ("running", "parked")
        run.records = records if is_open else []
        return nodes_of(records, row, is_whole=True)

    def _perform(
        self,
        read: Callable[Concatenate[Database, Given], Result],
        *args: Given.args,
        **keywords: Given.kwargs,
    ) -> Result:
        thread = self._store.thread
        return thread.perform(lambda: read(thread.opened(), *args, **keywords)).wait_in_thread()


def _question_ids(run_id: str, records: Iterable[Record]) -> dict[str, str]:
    """The ids of the questions of a run, by place."""
    return {
        each.place: question_id(run_id, each.place, msgspec.msgpack.decode(each.body, type=QuestionRecord))
        for each in records
        if each.kind == "question"
    }


def _remembered_at(
    nodes: Iterable[RestoredNode], ids: Mapping[str, str], remembered: Sequence[RememberedApproval]
) -> dict[str, RememberedApproval]:
    """Return the approvals that are remembered, by the nodes of their requests."""
    by_id = {each.id: each for each in remembered}
    if not by_id:
        return {}
    places = ((node.id, str(node.attributes.get("nighthawk.journal.place", ""))) for node in nodes)
    found = ((node_id, by_id.get(ids.get(place, ""))) for node_id, place in places)
    return {node_id: approval for node_id, approval in found if approval is not None}


def _with_questions(
    nodes: Iterable[RestoredNode], ids: Mapping[str, str], questions: Sequence[QuestionRow]
) -> tuple[list[RestoredNode], dict[str, QuestionRow]]:
    """Mark the nodes at which people can answer, and return them with their questions.

    Args:
        nodes: The nodes of a run.
        ids: The ids of its questions, by place.
        questions: Those that can be answered.
    """
    open_rows = {row.id: row for row in questions}
    marked: list[RestoredNode] = []
    asked: dict[str, QuestionRow] = {}
    for node in nodes:
        place = str(node.attributes.get("nighthawk.journal.place", ""))
        row = open_rows.get(ids.get(place, "")) if node.kind == "question" else None
        if row is not None:
            asked[node.id] = row
            attributes = {**node.attributes, ANSWERABLE: True, "approval.approvals": len(approvals_of(row))}
            if row.kind == "question":
                del attributes["approval.approvals"]
            node = msgspec.structs.replace(node, attributes=attributes)
        marked.append(node)
    return marked, asked


def approvals_of(row: QuestionRow) -> list[str]:
    """Return the people who have approved a request through the store, and not taken that back."""
    people: dict[str, None] = {}
    for vote in row.votes:
        if vote.role:
            people = {name: None for name in people if name in row.roles.get(vote.role, ())}
        elif vote.approves:
            people[vote.voter] = None
        else:
            people.pop(vote.voter, None)
    return [*people]


def _unreadable(row: RunRow, error: Exception) -> RestoredNode:
    """The node of a run whose records cannot be read."""
    (node,) = nodes_of([], row, is_whole=True)
    return msgspec.structs.replace(
        node, attributes={**node.attributes, "nighthawk.journal.error": str(error)}
    )
