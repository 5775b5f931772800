"""`report_as_tree`: a report as a tree, as if its evaluation had been recorded, for the dashboard.

`FollowedReport` is the same for a file to which an evaluation still appends.
"""

import os
from collections.abc import Iterator
from itertools import count

from ...observation import EVALUATION
from ...observe import TaskTree
from ...observe.restored_tree import RestoredNode, RestoredTree, restore_tree
from ...observe.views import ErrorView
from ...prompt.plain_text import single_line
from ..errors import UndecidedError
from ..report import Report, load_report, loaded_report
from ..results import CaseResult, TrialResult

_TOP = "0"
_NAME_CHARACTERS = 200


def report_as_tree(
    report: Report, *, baseline: Report | str | os.PathLike[str] | None = None, any_subject: bool = False
) -> TaskTree:
    """Return a report as a tree: the evaluation, its cases, their trials; the baseline is another evaluation.

        dashboard = Dashboard(report_as_tree(report, baseline="baseline.jsonl"))

    A trial has its output, its scores, its error and its usage, but no steps: a report does not keep them.
    All trials begin when the evaluation began.

    Args:
        report: The report.
        baseline: An earlier report, or the path of its file; None for none.
        any_subject: Whether the baseline may be the report of another subject.

    Raises:
        ReportError: The baseline cannot be read, or is the report of another subject.
    """
    earlier = None if baseline is None else loaded_report(baseline)
    nodes = _nodes_of_both(report, earlier, _figures(report, earlier, any_subject=any_subject))
    return restore_tree(nodes, began_at=min(node.began_at for node in nodes))


class FollowedReport:
    """The tree of a report in a file, to which an evaluation may append; see `report_as_tree`.

    Args:
        path: The path of the file.
        baseline: The path of the file of an earlier report, also one of another subject; None for none.

    Raises:
        ReportError: A file cannot be read.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, baseline: str | os.PathLike[str] | None = None
    ) -> None:
        self._path = path
        self._baseline = None if baseline is None else load_report(baseline)
        self._seen = _stamp_of(path)
        report = load_report(path)
        self._evaluation = _identity_of(report)
        figures = _figures(report, self._baseline, any_subject=True)
        self._restored = RestoredTree(report.created_at)
        self._restored.put(_nodes_of_both(report, self._baseline, figures))

    @property
    def tree(self) -> TaskTree:
        """The tree."""
        return self._restored.tree

    def refresh(self) -> None:
        """Bring the tree up to date if the file has changed. One that has become another report is ignored.

        Figures are left out until all trials are there: intervals take too long to work them out each time.

        Raises:
            ReportError: The file cannot be read.
        """
        stamp = _stamp_of(self._path)
        if stamp == self._seen:
            return
        report = load_report(self._path)
        self._seen = stamp
        if _identity_of(report) != self._evaluation:
            return
        is_whole = not report.counts["not_run"]
        figures = _figures(report, self._baseline, any_subject=True) if is_whole else {}
        self._restored.put(_nodes_of_both(report, self._baseline, figures))


def _stamp_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:  # reading it says what is wrong
        return None
    return status.st_size, status.st_mtime_ns


def _identity_of(report: Report) -> tuple[object, ...]:
    """Return what the nodes of a report depend on, besides the results of trials."""
    return report.subject, report.trials_per_case, [case.name for case in report.cases]


def _figures(report: Report, baseline: Report | None, *, any_subject: bool) -> dict[str, str]:
    """Return the report and its comparison as texts.

    Raises:
        ReportError: The baseline is the report of another subject.
    """
    figures = {"report": str(report)}
    if baseline is not None:
        try:
            figures["comparison"] = str(report.compare(baseline, any_subject=any_subject))
        except UndecidedError as error:
            figures["comparison"] = str(error)
    return figures


def _nodes_of_both(report: Report, baseline: Report | None, figures: dict[str, str]) -> list[RestoredNode]:
    """Return all nodes. Those of the baseline are first, as if it had been evaluated just before."""
    ids = map(str, count(1))
    nodes: list[RestoredNode] = []
    if baseline is not None:
        nodes += _nodes_of(baseline, ids, {"report": str(baseline)})
    return [*nodes, *_nodes_of(report, ids, figures)]


def _nodes_of(report: Report, ids: Iterator[str], outputs: dict[str, str]) -> Iterator[RestoredNode]:
    top = next(ids)
    subject = single_line(report.subject, _NAME_CHARACTERS)
    yield RestoredNode(
        id=top,
        parent_id=_TOP,
        kind="group",
        name=f"evaluate {subject}",
        state="completed",
        began_at=report.created_at,
        ended_at=report.created_at + _longest(report.trials),
        outputs=outputs,
        attributes={f"{EVALUATION}subject": subject, f"{EVALUATION}trials": report.trials_per_case},
    )
    for case in report.cases:
        node = _case_node(report, case, next(ids), top)
        yield node
        for trial in case.trials:
            yield _trial_node(report, trial, next(ids), node.id)


def _case_node(report: Report, case: CaseResult, node_id: str, parent_id: str) -> RestoredNode:
    inputs = {"inputs": case.inputs, "expected": case.expected, "tags": ", ".join(case.tags)}
    return RestoredNode(
        id=node_id,
        parent_id=parent_id,
        kind="group",
        name=single_line(case.name, _NAME_CHARACTERS),
        state="completed",
        began_at=report.created_at,
        ended_at=report.created_at + _longest(case.trials),
        inputs={name: text for name, text in inputs.items() if text},
        attributes={f"{EVALUATION}digest": case.digest} if case.digest else {},
    )


def _trial_node(report: Report, trial: TrialResult, node_id: str, parent_id: str) -> RestoredNode:
    usages = {report.model or "model": trial.usage, "scorers": trial.scoring_usage}
    return RestoredNode(
        id=node_id,
        parent_id=parent_id,
        kind="task",
        name=f"trial {trial.number}",
        state=trial.node_state,
        began_at=report.created_at,
        ended_at=report.created_at + trial.seconds,
        inputs={"case": trial.case},
        outputs=trial.shown(),
        error=None if trial.node_state == "completed" else ErrorView(type=trial.status, message=trial.error),
        usage_by_model={model: usage for model, usage in usages.items() if usage.requests},
        attributes={f"{EVALUATION}status": trial.status},
    )


def _longest(trials: tuple[TrialResult, ...]) -> float:
    return max((trial.seconds for trial in trials), default=0.0)
