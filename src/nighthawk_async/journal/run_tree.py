"""The tree of a run, made of its records: as observers saw it while it ran, at any moment.

Records say when something has ended, not when it began, and know nothing of objects in memory. A node begins
with the record before its first one in the same place, and inputs of functions and steps are names alone.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from ..errors import NighthawkError
from ..observation import NodeState
from ..observe.restored_tree import RestoredNode, restore_tree
from ..observe.tree import TaskTree
from ..observe.views import ErrorView
from .branch_nodes import Branch, NodeFacts, facts_of
from .diverged_lives import records_that_count
from .frames import is_awaited, is_within
from .recorder import ROOT
from .records import ENDED, Record, begins_life
from .tables import RunRow

_ENDS: dict[str, NodeState] = {
    "ended": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "parked": "suspended",
    "running": "running",
    "stuck": "failed",
}


def records_until(records: Sequence[Record], at: str) -> Sequence[Record]:
    """Return the records up to a moment, that included.

    Args:
        records: The records of a run, in order.
        at: The number of a record; a time in ISO format, in UTC where it says nothing else; or a place, for
            the first record in it.

    Raises:
        NighthawkError: It is none of these, or nothing was recorded in the place.
    """
    if at.isdecimal():
        return [record for record in records if record.seq <= int(at)]
    if at == ROOT or at.startswith(f"{ROOT}/"):
        for number, record in enumerate(records, 1):
            if is_within(record.place, at):
                return records[:number]
        raise NighthawkError(f"nothing was recorded in {at}")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise NighthawkError(
            f"{at!r} is no moment: write the number of a record, a time (2026-01-31T12:00), or a place "
            "(run/…)"
        ) from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return [record for record in records if record.at <= seconds]


def tree_of(records: Sequence[Record], row: RunRow, *, is_whole: bool) -> TaskTree:
    """Return the tree of a run.

    Args:
        records: The records, in order; all, or those up to a moment.
        row: The run.
        is_whole: Whether these are all records, so that the run's status counts.
    """
    return restore_tree(nodes_of(records, row, is_whole=is_whole), began_at=row.created_at)


def nodes_of(records: Sequence[Record], row: RunRow, *, is_whole: bool) -> list[RestoredNode]:
    """Return the nodes of a run, parents first; see `tree_of`. Further records change no ids."""
    root = Branch(ROOT, None)
    latest = records[-1].epoch if records else None  # show what it did, even if that does not count
    for record in records_that_count(records, latest):
        if record.kind not in ("life", "order"):
            root.add(record)
    moment = max([row.updated_at if is_whole else row.created_at, *(record.at for record in records[-1:])])
    lives = [record for record in records if record.kind == "life"]
    nodes = _Nodes(moment, root.last)
    nodes.add_run(root, row, lives, is_whole=is_whole)
    return nodes.nodes


def run_node_id(run_id: str) -> str:
    """Return the id of the node of a run."""
    return _id_of("0", run_id)


def _id_of(parent_id: str, name: str) -> str:
    """The id of a node, which is a number: that of its name below its parent."""
    return str(int.from_bytes(hashlib.blake2b(f"{parent_id}/{name}".encode(), digest_size=8).digest(), "big"))


def _attributes_of(row: RunRow) -> dict[str, str]:
    attributes: dict[str, str] = {"nighthawk.journal.status": row.status}
    if row.wakes_at is not None:
        wakes_at = datetime.fromtimestamp(row.wakes_at, UTC)
        attributes["nighthawk.journal.wakes_at"] = wakes_at.isoformat(sep=" ", timespec="seconds")
    return attributes


class _Nodes:
    """Makes the nodes of branches, parents first.

    Args:
        moment: The time of the last record, in seconds since 1970.
        last: The last record; None for none.
    """

    def __init__(self, moment: float, last: Record | None) -> None:
        self.nodes: list[RestoredNode] = []
        self._moment = moment
        self._last = last
        self._facts: dict[str, NodeFacts] = {}
        self._ended: dict[str, bool] = {}  # by place, in tasks beside which others go on

    def add_run(self, root: Branch, row: RunRow, lives: Sequence[Record], *, is_whole: bool) -> None:
        """Add the run and everything in it."""
        has_ended = bool(lives) and lives[-1].body == ENDED
        state: NodeState = _ENDS[row.status] if is_whole else "completed" if has_ended else "running"
        error = None
        if state == "failed":
            name, _, message = row.error.partition(": ")
            error = ErrorView(type=name or row.status, message=message)
        begun = [*filter(begins_life, lives)]
        self.nodes.append(
            RestoredNode(
                id=run_node_id(row.run_id),
                parent_id="0",
                kind="run",
                name=row.run_id,
                state=state,
                began_at=begun[0].at if begun else row.created_at,
                ended_at=self._moment,
                error=error,
                attributes={
                    "nighthawk.run.id": row.run_id,
                    "nighthawk.journal.lives": len(begun),
                    **(_attributes_of(row) if is_whole else {}),
                },
            )
        )
        self._add_children(root, self.nodes[0].id, state, is_beside=False)

    def _add_children(self, parent: Branch, parent_id: str, state: NodeState, *, is_beside: bool) -> None:
        """Add what is in a place, which is in some state, and in a task beside which others may go on."""
        branches = parent.shown()
        awaited = [number for number, branch in enumerate(branches) if is_awaited(branch.frame)]
        for number, branch in enumerate(branches):
            is_task = is_beside or not is_awaited(branch.frame)
            has_passed = is_awaited(branch.frame) and number < awaited[-1]
            if has_passed or (is_task and self._has_ended(branch)):
                self._add(branch, parent, parent_id, "completed", is_beside=is_task)
            else:
                self._add(branch, parent, parent_id, state, is_beside=is_task)

    def _facts_of(self, branch: Branch) -> NodeFacts:
        if branch.place not in self._facts:
            self._facts[branch.place] = facts_of(branch, self._moment)
        return self._facts[branch.place]

    def _has_ended(self, branch: Branch) -> bool:
        """Whether all that is known of a task has ended, while another task went on."""
        if branch.place not in self._ended:
            facts, below = self._facts_of(branch), branch.shown()
            self._ended[branch.place] = (
                facts.is_ended
                or facts.error is not None
                or (branch.last is not self._last and bool(below) and all(map(self._has_ended, below)))
            )
        return self._ended[branch.place]

    def _add(
        self, branch: Branch, parent: Branch, parent_id: str, parent_state: NodeState, *, is_beside: bool
    ) -> None:
        facts = self._facts_of(branch)
        state = _state_of(branch, parent, facts, parent_state)
        has_ended = state in ("completed", "failed", "cancelled")
        node = RestoredNode(
            id=_id_of(parent_id, branch.place),
            parent_id=parent_id,
            kind=facts.kind,
            name=facts.name,
            state=state,
            began_at=facts.began_at,
            ended_at=facts.ended_at if has_ended else None,
            inputs=facts.inputs,
            outputs=facts.outputs,
            error=facts.error,
            usage_by_model=facts.usage,
            retries=facts.retries,
            transcript=facts.transcript,
            attributes={"nighthawk.journal.place": branch.place},
        )
        self.nodes.append(node)
        self._add_children(branch, node.id, state, is_beside=is_beside)


def _state_of(branch: Branch, parent: Branch, facts: NodeFacts, parent_state: NodeState) -> NodeState:
    """The state of a place.

    Args:
        branch: The place.
        parent: The place that it is in.
        facts: Its facts.
        parent_state: The state of that place; `completed` also if something has followed it.
    """
    if facts.error is not None:
        return "failed"
    if facts.is_ended:
        return "completed"
    if branch.name == "item" and parent.decision is not None:
        return "completed" if branch.number in parent.decision else "cancelled"
    if parent_state in ("failed", "cancelled"):
        return "cancelled"
    if parent_state == "completed" or (parent_state == "suspended" and facts.open_state == "running"):
        return parent_state
    return facts.open_state
