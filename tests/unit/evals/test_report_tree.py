"""Evaluations in the tree: as they run, and of reports."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.evals import (
    FollowedReport,
    Report,
    ReportError,
    Trial,
    TrialResult,
    evaluate,
    load_report,
    report_as_tree,
)
from nighthawk_async.observe import NodeView, TaskTree, read_recording, recording, view_as_page
from nighthawk_async.observe.page.summaries import summarize_node
from tests.unit.evals.evals_support import WORDS, cases, executor, model, stars

anyio_test = pytest.mark.anyio


def facts(view: NodeView) -> dict[str, object]:
    """The facts about a node that belong to evaluations, as the page gets them."""
    found = summarize_node(view).get("evaluation", {})
    assert isinstance(found, dict)
    return found


def evaluation_in(tree: TaskTree, number: int = 0) -> NodeView:
    return [node for node in tree.snapshot().walk() if "subject" in facts(node)][number]


def statuses_in(evaluation: NodeView) -> dict[str, list[object]]:
    return {
        case.name: [facts(trial).get("status") for trial in case.children] for case in evaluation.children
    }


def wrong_about_two(review: str) -> int:
    """A subject of which one case passes, one fails, and one raises."""
    word = review.split()[0]
    if word == "Three":
        raise LookupError("no such word")
    return {**WORDS, "Two": 5}[word]


@anyio_test
async def test_an_evaluation_that_runs_says_what_its_nodes_are() -> None:
    tree = TaskTree()
    with tree.recording():
        report = await evaluate(wrong_about_two, cases("One", "Two", "Three"), trials=2)
    evaluation = evaluation_in(tree)
    assert facts(evaluation) == {"subject": report.subject, "trials": 2}
    assert [facts(case)["digest"] for case in evaluation.children] == [each.digest for each in report.cases]
    assert statuses_in(evaluation) == {
        "One": ["passed", "passed"],
        "Two": ["failed", "failed"],
        "Three": ["error", "error"],
    }
    trial = evaluation.children[2].children[0]
    assert (trial.state, trial.outputs["error"]) == ("failed", '"LookupError: no such word"')
    outputs = evaluation.children[1].children[0].outputs
    assert outputs["score equals"].startswith('"0, failed')


@anyio_test
async def test_a_trial_that_the_budget_interrupts_was_not_run() -> None:
    tree = TaskTree()
    with tree.recording():
        report = await evaluate(
            stars, cases("One", "Two"), max_concurrent=1, budget=nh.budget(steps=1), model=executor()
        )
    assert [trial.status for trial in report.trials] == ["passed", "not_run"]
    assert statuses_in(evaluation_in(tree)) == {"One": ["passed"], "Two": ["not_run"]}


@anyio_test
async def test_the_tree_of_a_report_is_that_of_its_evaluation(tmp_path: Path) -> None:
    def cites(trial: Trial) -> bool:
        return trial.output > 0

    live = TaskTree()
    with live.recording():
        report = await evaluate(
            stars, cases("One", "Two"), trials=2, scorers=[cites], model=model(), path=tmp_path / "r.jsonl"
        )
    tree = report_as_tree(load_report(tmp_path / "r.jsonl"))
    recorded, restored = evaluation_in(live), evaluation_in(tree)
    assert statuses_in(restored) == statuses_in(recorded)
    assert facts(restored) == facts(recorded)
    for case, known in zip(restored.children, recorded.children, strict=True):
        assert (facts(case), case.name) == (facts(known), known.name)
        for trial, other in zip(case.children, known.children, strict=True):
            assert trial.outputs["status"] == other.outputs["status"].strip('"')
            assert trial.subtree_usage == other.subtree_usage
    assert tree.snapshot().subtree_usage.requests == report.usage.requests
    assert "One" in view_as_page(tree.snapshot())


@anyio_test
async def test_a_recording_keeps_the_matrix_and_the_steps(tmp_path: Path) -> None:
    with recording(to=tmp_path / "recording.jsonl"):
        await evaluate(stars, cases("One", "Two"), model=executor({"Two": 5}))
    evaluation = evaluation_in(read_recording(tmp_path / "recording.jsonl").tree)
    assert statuses_in(evaluation) == {"One": ["passed"], "Two": ["failed"]}
    kinds = [node.kind for node in evaluation.children[0].walk()]
    assert kinds == ["group", "task", "function", "step"]


@anyio_test
async def test_the_baseline_is_an_earlier_evaluation_of_the_same_tree(tmp_path: Path) -> None:
    before = await evaluate(stars, cases("One", "Two"), model=executor())
    before.save(tmp_path / "before.jsonl")
    after = await evaluate(stars, cases("One", "Two"), model=executor({"Two": 5}))
    tree = report_as_tree(after, baseline=tmp_path / "before.jsonl")
    assert statuses_in(evaluation_in(tree, 0)) == {"One": ["passed"], "Two": ["passed"]}
    assert statuses_in(evaluation_in(tree, 1)) == {"One": ["passed"], "Two": ["failed"]}
    assert evaluation_in(tree, 1).outputs["comparison"] == str(after.compare(before))
    assert evaluation_in(tree, 1).outputs["report"] == str(after)


@anyio_test
async def test_a_baseline_of_another_subject_has_to_be_wanted() -> None:
    before = await evaluate(stars, cases("One"), model=executor(), name="another")
    after = await evaluate(stars, cases("One"), model=executor())
    with pytest.raises(ReportError, match="report on another"):
        report_as_tree(after, baseline=before)
    assert len(report_as_tree(after, baseline=before, any_subject=True).snapshot().children) == 2


@anyio_test
async def test_a_file_is_followed_while_trials_are_appended(tmp_path: Path) -> None:
    path, seen = tmp_path / "report.jsonl", list[dict[str, list[object]]]()
    followed: FollowedReport | None = None

    def look(trial: TrialResult) -> None:
        nonlocal followed
        if followed is None:
            followed = FollowedReport(path, baseline=tmp_path / "before.jsonl")
        followed.refresh()
        seen.append(statuses_in(evaluation_in(followed.tree, 1)))

    before = await evaluate(stars, cases("One"), model=executor(), path=tmp_path / "before.jsonl")
    report = await evaluate(
        stars,
        cases("One", "Two"),
        model=executor({"Two": 5}),
        max_concurrent=1,
        path=path,
        on_trial=look,
    )
    assert seen == [{"One": ["passed"], "Two": ["not_run"]}, {"One": ["passed"], "Two": ["failed"]}]
    assert followed is not None
    evaluation = evaluation_in(followed.tree, 1)
    assert evaluation.outputs == {"report": str(report), "comparison": str(report.compare(before))}
    version = followed.tree.version
    followed.refresh()
    assert followed.tree.version == version
    await evaluate(stars, cases("Three"), model=executor(), path=tmp_path / "other.jsonl")
    (tmp_path / "other.jsonl").replace(path)
    followed.refresh()
    assert followed.tree.version == version
    path.unlink()
    with pytest.raises(ReportError, match="cannot be read"):
        followed.refresh()


def test_a_report_without_cases_has_a_tree() -> None:
    empty = Report(subject="here:it", cases=(), scorers=(), trials_per_case=1)
    assert statuses_in(evaluation_in(report_as_tree(empty, baseline=empty))) == {}
