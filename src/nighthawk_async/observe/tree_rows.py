"""Rows of the tree as text: one for each node, its model's text and its error, and for what is omitted. Pure.

The rows are chosen to fit a number of rows: everything while it fits. Then subtrees that have ended well are
folded into one row each, then into one row for all siblings; then texts are left out; then only as many
siblings are shown as fit, the others are counted. Failed and running nodes are kept longest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ..observation import NodeState
from .node_words import MARKS, PLAIN_MARKS, error_text, last_line_said
from .views import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row.

    Args:
        kind: The kind of row: a node, its model's text, its error, or the number of nodes that are not shown.
        view: The node, or the one to which the row belongs.
        text: The text of the other kinds.
        levels: For each level above, whether the line from there continues below this row.
        is_last: Whether no sibling follows.
        step: The only step of a function, when both share the row.
        hidden: The number of nodes below it that are not shown.
    """

    kind: Literal["node", "said", "error", "folded"]
    view: NodeView
    text: str = ""
    levels: tuple[bool, ...] = ()
    is_last: bool = True
    hidden: int = 0
    step: NodeView | None = None

    @property
    def state(self) -> NodeState:
        """The state of the row: that of the step while its function is running, which may wait for it."""
        return self.view.state if self.step is None or self.view.is_ended else self.step.state


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """The amount of detail.

    Args:
        ended: Whether the nodes below one that ended well are shown.
        each_ended: Whether siblings that ended well have a row each.
        texts: Whether the models' texts are shown.
        shared: Whether a function and its only step share a row.
        siblings: The number of siblings that are shown, of running and of failed ones each.
    """

    ended: bool = False
    each_ended: bool = False
    texts: bool = True
    shared: bool = True
    siblings: int | None = None


_DETAILS = (
    _Detail(ended=True, each_ended=True, shared=False),
    _Detail(each_ended=True),
    _Detail(),
    _Detail(texts=False),
    *(_Detail(texts=False, siblings=count) for count in (32, 16, 8, 4, 2, 1)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digest:
    """A digest of a node and of all nodes below it.

    Args:
        version: The version of the node.
        nodes: The number of nodes.
        is_live: Whether any of them is running.
        failures: The number of them that failed by themselves: one above one that has failed fails with it.
        questions: The number of them that are questions to a person.
    """

    version: int
    nodes: int
    is_live: bool
    failures: int
    questions: int


class Digests:
    """Caches digests of subtrees, and recomputes only changed ones."""

    def __init__(self) -> None:
        self._digests: dict[str, _Digest] = {}

    def look(self, root: NodeView) -> None:
        """Update the digests of the whole tree.

        Args:
            root: The root.
        """
        before, now = self._digests, dict[str, _Digest]()
        order: list[NodeView] = [root]
        for view in order:  # it grows meanwhile
            digest = before.get(view.id)
            if digest is not None and digest.version == view.version:
                now[view.id] = digest
            else:
                order.extend(view.children)
        for view in reversed(order):
            if view.id not in now:
                now[view.id] = _digest(view, [now[child.id] for child in view.children])
        self._digests = now

    def of(self, view: NodeView) -> _Digest:
        """Return the digest of a node."""
        digest = self._digests.get(view.id)
        if digest is None or digest.version != view.version:
            digest = _digest(view, [self.of(child) for child in view.children])
            self._digests[view.id] = digest
        return digest

    def is_quiet(self, view: NodeView) -> bool:
        """Whether everything in a node has ended well."""
        digest = self.of(view)
        return not digest.is_live and not digest.failures

    def is_asking(self, view: NodeView) -> bool:
        """Whether a question to a person is open below a node."""
        return self.of(view).questions > 0


def has_failed_by_itself(view: NodeView) -> bool:
    """Whether a node has failed, and none right below it."""
    return view.state == "failed" and not any(child.state == "failed" for child in view.children)


def _digest(view: NodeView, below: Sequence[_Digest]) -> _Digest:
    return _Digest(
        version=view.version,
        nodes=1 + sum(each.nodes for each in below),
        is_live=not view.is_ended or any(each.is_live for each in below),
        failures=has_failed_by_itself(view) + sum(each.failures for each in below),
        questions=(view.kind == "question" and not view.is_ended) + sum(each.questions for each in below),
    )


def rows_that_fit(root: NodeView, digests: Digests, height: int) -> list[Row]:
    """The rows to show of the tree.

    Args:
        root: The root.
        digests: The digests of the nodes below each node.
        height: The number of rows.
    """
    digests.look(root)
    rows: list[Row] = []
    for detail in _DETAILS:
        rows = list(islice(_Rows(detail, digests).below(root, ()), height + 1))
        if len(rows) <= height:
            return rows
    return rows[:height]


def rows_of(view: NodeView) -> list[Row]:
    """Return all rows of a view: of the node and everything below it, or of everything below the root node.

    Args:
        view: The view.
    """
    digests = Digests()
    digests.look(view)
    rows = _Rows(_Detail(ended=True, each_ended=True), digests)
    return list(rows.below(view, ()) if view.kind == "tree" else rows.node(view, (), is_last=True))


class _Rows:
    """Makes the rows for one amount of detail."""

    def __init__(self, detail: _Detail, digests: Digests) -> None:
        self._detail = detail
        self._digests = digests

    def below(self, parent: NodeView, levels: tuple[bool, ...]) -> Iterator[Row]:
        """The rows of everything below a node."""
        shown, left_out = self._children(parent)
        for number, view in enumerate(shown, 1):
            is_last = number == len(shown) and not left_out
            yield from self.node(view, levels, is_last=is_last)
        for number, text in enumerate(left_out, 1):
            is_last = number == len(left_out)
            yield Row(kind="folded", view=parent, text=text, levels=levels, is_last=is_last)

    def _children(self, parent: NodeView) -> tuple[list[NodeView], list[str]]:
        """The children to show, and the counts of the others."""
        detail, digests = self._detail, self._digests
        if detail.each_ended:
            dropped = parent.dropped_children
            return list(parent.children), [f"{dropped:,} earlier"] if dropped else []
        kept: list[NodeView] = []
        ended, more_failed, more_live = parent.dropped_children, 0, 0
        room = {True: detail.siblings or len(parent.children), False: detail.siblings or len(parent.children)}
        for view in parent.children:
            digest = digests.of(view)
            if not digest.is_live and not digest.failures:
                ended += 1
            elif room[digest.is_live]:
                room[digest.is_live] -= 1
                kept.append(view)
            elif digest.is_live:
                more_live += 1
            else:
                more_failed += 1
        counts = ((more_live, "more in progress"), (more_failed, "more failed"), (ended, "done"))
        return kept, [f"{count:,} {words}" for count, words in counts if count]

    def node(self, view: NodeView, levels: tuple[bool, ...], *, is_last: bool) -> Iterator[Row]:
        """The rows of a node and of everything below it."""
        is_folded = not self._detail.ended and bool(view.children) and self._digests.is_quiet(view)
        hidden = self._digests.of(view).nodes - 1 if is_folded else 0
        step = only_step(view) if self._detail.shared else None
        yield Row(kind="node", view=view, levels=levels, is_last=is_last, hidden=hidden, step=step)
        inner, lowest = (*levels, not is_last), step or view
        if said := self._said(lowest):
            yield Row(kind="said", view=lowest, text=said, levels=inner)
        if (error := error_text(lowest)) and not _is_shown_below(lowest):
            yield Row(kind="error", view=lowest, text=error, levels=inner)
        if not is_folded:
            yield from self.below(lowest, inner)

    def _said(self, view: NodeView) -> str:
        """Return the current text of its model. A step's request is left out: the step has the same text."""
        if not self._detail.texts or view.is_ended or view.kind == "model_request":
            return ""
        return last_line_said(view)


def only_step(view: NodeView) -> NodeView | None:
    """Return the step of a function that has nothing else below it and nothing else to show; None for none.

    Both share a row, in the terminal and on the page.
    """
    if view.kind != "function" or len(view.children) != 1 or view.dropped_children:
        return None
    step = view.children[0]
    return step if step.kind == "step" and view.error in (None, step.error) else None


def _is_shown_below(view: NodeView) -> bool:
    """Whether a node below ended with the same error, so that it need not be shown twice."""
    return any(child.error == view.error for child in view.children)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The characters that the tree is drawn with.

    Args:
        marks: The marks of states.
        branch: The branch to a node that has siblings below it.
        last: The branch to the last sibling.
        through: The line past a node, to siblings below it.
        ellipsis: The end of a text that was cut.
    """

    marks: Mapping[NodeState, str]
    branch: str
    last: str
    through: str
    ellipsis: str


UNICODE = Lines(marks=MARKS, branch="├─ ", last="└─ ", through="│  ", ellipsis="…")
ASCII = Lines(marks=PLAIN_MARKS, branch="|- ", last="`- ", through="|  ", ellipsis="...")


def guide_of(row: Row, lines: Lines, *, width: int | None = None) -> str:
    """Return the lines at the left of a row.

    Args:
        row: The row.
        lines: The characters to draw with.
        width: The width of the row; the lines take at most a third of it. None for no limit.
    """
    parts = [lines.through if goes_on else "   " for goes_on in row.levels[1:]]
    if row.kind not in ("node", "folded"):
        parts.append("  ")
    elif row.levels:
        parts.append(lines.last if row.is_last else lines.branch)
    return "".join(parts if width is None else parts[-max(1, width // 9) :])
