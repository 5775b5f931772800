"""`improve`: other wordings of a block, judged on some cases and reported on others."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..causes import ends_run
from ..executors.choice import ExecutorChoice, chosen_executor
from ..kernel.environment import get_environment
from ..kernel.usage_meter import UsageMeter
from ..parallel import map as parallel_map
from ..parallel.calling import checked_max_concurrent
from ..policies.budgets.budget import Budget
from ..policies.budgets.policy import find_refusal
from ..types.json import is_text
from ..types.usage import Usage
from ..values.error_text import describe_error
from .case_sets import example_cases, split_cases
from .cases import Case, Subject, case_digest, checked_cases
from .comparison import Comparison, Verdict
from .errors import EvaluationError, ReportError, UndecidedError
from .evaluating import prepared_evaluation, subject_name
from .grid import Arm, evaluate_grid
from .grid_report import Grid
from .report_file import write_whole
from .scores import DEFAULT_PASS_MARK, Scorer, checked_scorers
from .statistics import DEFAULT_CONFIDENCE, check_confidence
from .trials import is_transport_error, metered, model_name, trial_environment
from .wordings import BlockSource, Proposals, failures_of, find_block, normalized, with_examples

_FORMAT = "nighthawk-improvement"
_VERSION = 1


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file.

    Args:
        format: The name of the format.
        version: The version of the format.
        arguments: Digests of the arguments, by words for what would be different.
    """

    format: str
    version: int
    arguments: Mapping[str, str]


def claim_folder(folder: str | os.PathLike[str], arguments: Mapping[str, object]) -> None:
    """Make the folder of an improvement, or check that the one that is there belongs to it.

    Args:
        folder: The folder.
        arguments: The arguments on which results depend, by words for one that is different, as in
            "another seed". Equal ones have equal representations.

    Raises:
        ReportError: The folder belongs to another improvement, or its description is damaged.
        OSError: The folder cannot be made, or not be written to.
    """
    digests = {
        words: hashlib.sha256(repr(each).encode()).hexdigest()[:16] for words, each in arguments.items()
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder, "improvement.json")
    if not path.exists():
        description = _Description(format=_FORMAT, version=_VERSION, arguments=digests)
        write_whole(path, [msgspec.json.format(msgspec.json.encode(description), indent=1)])
        return
    known = _read(path)
    different = [words for words, digest in digests.items() if known.get(words) != digest]
    if different:
        raise ReportError(
            f"The folder {os.fspath(folder)} belongs to another improvement, with {' and '.join(different)}. "
            "Give another folder=, or delete it to begin anew."
        )


def _read(path: Path) -> Mapping[str, str]:
    try:
        description = msgspec.json.decode(path.read_bytes(), type=_Description)
    except (OSError, msgspec.MsgspecError) as error:
        raise ReportError(f"{path}: this describes no improvement: {error}") from None
    if (description.format, description.version) != (_FORMAT, _VERSION):
        raise ReportError(f"{path}: this release of nighthawk-async reads version {_VERSION} of its format.")
    return description.arguments


ORIGINAL = "original"
"""The name of the arm with the block as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The result of `improve`. Nothing is changed by it: `save_diff` writes the change for `git apply`.

    Args:
        subject: The name of the function, `module:function`.
        block: The number of the block in the function.
        wording: The text of the best block; that of the block as it is if no other one was better.
        original: The text of the block as it is.
        diff: The change of the source file as a unified diff; empty if no other text was better.
        comparison: The comparison of the best block with the block as it is, on the cases that were held out;
            None if there was nothing to compare.
        reason: The reason why there is no comparison, or why it is incomplete; empty for none.
        training: The grid of all texts on the training cases; None if the budget ended before it.
        held_out: The grid of both texts on the cases that were held out; None as for the comparison.
        texts: The texts of the arms of the training grid, by their names.
        rejected: Proposals that could not be used, with the reasons.
        usage: The usage of everything in this call: proposals, trials and scorers.
    """

    subject: str
    block: int
    wording: str
    original: str
    diff: str = ""
    comparison: Comparison | None = None
    reason: str = ""
    training: Grid | None = None
    held_out: Grid | None = None
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    encoding: str = field(default="utf-8", repr=False)

    @property
    def verdict(self) -> Verdict:
        """`improved` or `regressed` if the cases that were held out decide, `inconclusive` if they do not."""
        return "inconclusive" if self.comparison is None else self.comparison.verdict

    def save_diff(self, path: str | os.PathLike[str]) -> None:
        """Write the diff to a file: `git apply FILE` in the root of the repository makes the change.

        Args:
            path: The path of the file.

        Raises:
            EvaluationError: There is no change.
            OSError: The file cannot be written.
        """
        if not self.diff:
            raise EvaluationError(f"There is no change to save: {self.reason or 'no other text was better'}.")
        Path(path).write_bytes(self.diff.encode(self.encoding))

    def __str__(self) -> str:
        """The verdict, the comparison and the diff."""
        head = f"{self.subject}, block {self.block}"
        lines = [f"{head}: {self.verdict if self.comparison is None else self.comparison}"]
        lines += [self.reason] if self.reason else []
        lines += [f"rejected: {each}" for each in self.rejected]
        return "\n".join([*lines, *(["", self.diff] if self.diff else [])]).rstrip("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The arguments that all parts of an improvement share.

    Args:
        source: The block.
        subject: The function.
        training: The cases to judge texts on.
        examples: The training cases that are shown as examples, and not judged on.
        held_out: The cases that are held out.
        folder: The folder of reports and proposals.
        wordings: The wordings of the caller.
        proposals: The number of wordings to ask for.
        instruction: More that the wordings must follow.
        proposal_model: The model that writes them.
        max_concurrent: The greatest number of calls in flight.
        settings: The other arguments of `evaluate_grid`.
    """

    source: BlockSource
    subject: Subject
    training: Sequence[Case]
    examples: Sequence[Case]
    held_out: Sequence[Case]
    folder: str | os.PathLike[str]
    wordings: Sequence[str]
    proposals: int
    instruction: str | None
    proposal_model: ExecutorChoice | None
    max_concurrent: int | None
    settings: Mapping[str, Any]

    async def grid(
        self, bodies: Mapping[str, str], cases: Sequence[Case], part: str, *, stop_early: bool = False
    ) -> Grid:
        """Evaluate texts on cases; the folder has a folder for each part."""
        arms = [
            Arm(name, self.subject if name == ORIGINAL else self.source.function_with(body))
            for name, body in bodies.items()
        ]
        return await evaluate_grid(
            arms, cases, folder=Path(self.folder, part), stop_early=stop_early, **self.settings
        )


async def improve(
    subject: Subject,
    cases: Iterable[Case],
    *,
    scorers: Sequence[Scorer] | None = None,
    trials: int = 1,
    wordings: Sequence[str] = (),
    proposals: int = 3,
    examples: int = 3,
    instruction: str | None = None,
    proposal_model: ExecutorChoice | None = None,
    block: int | None = None,
    held_out: float = 0.5,
    max_concurrent: int | None = 8,
    budget: Budget | None = None,
    model: ExecutorChoice | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    pass_mark: float = DEFAULT_PASS_MARK,
    confidence: float = DEFAULT_CONFIDENCE,
    timeout: float | None = None,  # noqa: ASYNC109  (of each call)
    transport_retries: int = 2,
) -> Improvement:
    """Look for a better text of a block, and say whether it is better on cases that took no part in it.

        improvement = await improve(stars, cases, budget=nh.budget(cost=2), model="openai-responses:gpt-5.4")
        print(improvement)                     # the verdict, and the change as a diff
        improvement.save_diff("stars.patch")   # git apply stars.patch

    The cases are split, stratified by their expectations. On the training part the block is evaluated as it
    is; a model sees its failures and proposes wordings; each wording is tried with and without examples,
    which are training cases that nothing is judged on. Texts that cannot win are stopped early. The best one
    is then compared with the block as it is on the part that was held out, which the model never sees, and
    which is used once: its verdict is that of an ordinary comparison. No file is changed.

    The block is a plain string of a natural function, or of a method, in a file. Closures are supported: the
    changed function has the variables of the original. F-strings, functions that call themselves, and
    functions below other decorators are refused.

    Args:
        subject: The natural function.
        cases: The cases.
        scorers: The scorers; see `evaluate`.
        trials: The number of trials of each case and text.
        wordings: Wordings of your own, tried beside those of the model.
        proposals: The number of wordings to ask a model for; 0 for none.
        examples: The greatest number of examples in a text; 0 for none.
        instruction: More that the wordings must follow, in words.
        proposal_model: The model that writes them; see `nighthawk_async.natural_function`. None for that of
            the run.
        block: The number of the block in the function, counted from 1; None for its only one.
        held_out: The part of the cases that is held out.
        max_concurrent: The greatest number of trials in flight at once.
        budget: The budget of everything: proposals, trials and scorers.
        model: The model of the run, or what one is made from, as for `nighthawk_async.run`; None for that
            of the active run.
        seed: The seed of the split, the trials and the intervals.
        folder: A folder for reports and proposals, made if it is not there. What is in it is not paid for
            again: the same call goes on after an interruption.
        pass_mark: The least number that passes, when a scorer returns one.
        confidence: The confidence of the verdict.
        timeout: The time of each call of the function, in seconds; None for no limit.
        transport_retries: The number of times that a trial is begun again because of a transport error.

    Raises:
        CaseError: There are too few cases, or they do not fit the function.
        EvaluationError: The block cannot be changed, or an argument has a bad value.
        ReportError: The folder belongs to another improvement, or a file in it is damaged.
        OSError: The folder cannot be made, or not be written to.
        NighthawkError: The model or the budget cannot be used.
    """
    source = find_block(subject, block)
    check_confidence(confidence)
    checked_max_concurrent(max_concurrent)
    given = checked_cases(cases, subject)
    training, kept = split_cases(given, held_out=held_out, seed=seed, confidence=confidence)
    shown = example_cases(training, _checked_count("examples", examples))
    chosen = None if model is None else chosen_executor(model)
    with ExitStack() as stack:
        stack.callback(source.forget)
        plan = _Plan(
            source=source,
            subject=subject,
            training=[case for case in training if case not in shown],
            examples=shown,
            held_out=kept,
            folder=folder if folder is not None else stack.enter_context(tempfile.TemporaryDirectory()),
            wordings=_checked_wordings(wordings),
            proposals=_checked_count("proposals", proposals),
            instruction=instruction,
            proposal_model=proposal_model,
            max_concurrent=max_concurrent,
            settings={
                "scorers": scorers,
                "trials": trials,
                "max_concurrent": max_concurrent,
                "seed": seed,
                "pass_mark": pass_mark,
                "confidence": confidence,
                "timeout": timeout,
                "transport_retries": transport_retries,
            },
        )
        _claim_folder(plan, given, held_out=held_out, model=model_name(chosen))
        async with trial_environment(chosen, budget):
            with metered(meter := UsageMeter(get_environment().usage_meter)):
                draft = await _improved(plan)
            return _result(plan, draft, meter.usage)


def _claim_folder(plan: _Plan, cases: Sequence[Case], *, held_out: float, model: str | None) -> None:
    """Check the arguments of trials, and that the folder belongs to this improvement.

    Raises:
        EvaluationError: An argument has a bad value.
        ReportError: The folder belongs to another improvement.
    """
    checked = {name: value for name, value in plan.settings.items() if name != "max_concurrent"}
    prepared_evaluation(plan.subject, cases, model=model, path=None, name=None, on_trial=None, **checked)
    claim_folder(plan.folder, _arguments(plan, cases, held_out=held_out, model=model))


def _arguments(
    plan: _Plan, cases: Sequence[Case], *, held_out: float, model: str | None
) -> Mapping[str, object]:
    """Return what results depend on, by words for one that is different."""
    settings, source = plan.settings, plan.source
    scorers: Sequence[Scorer] | None = settings["scorers"]
    return {
        "another function or block": (subject_name(plan.subject), source.block.number),
        "another version of the function": (source.function_text, source.body),
        "other cases": [(case.name, case_digest(case)) for case in cases],
        "other wordings": plan.wordings,
        "another number of proposals": plan.proposals,
        "another number of examples": len(plan.examples),
        "another instruction": plan.instruction,
        "another part held out": float(held_out),
        "another model": model,
        "other scorers": None if scorers is None else list(checked_scorers(scorers)),
        "another number of trials": settings["trials"],
        "another seed": settings["seed"],
        "another pass mark": float(settings["pass_mark"]),
        "another confidence": float(settings["confidence"]),
    }


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The results of an improvement so far."""

    texts: dict[str, str]
    training: Grid | None = None
    held_out: Grid | None = None
    best: str = ORIGINAL
    reason: str = ""
    rejected: list[str] = field(default_factory=list[str])


async def _improved(plan: _Plan) -> _Draft:
    draft = _Draft(texts={ORIGINAL: plan.source.body})
    draft.training = await plan.grid(draft.texts, plan.training, "training")
    report = draft.training.reports[ORIGINAL]
    if not report.decided:
        draft.reason = "No training case was decided."
        return draft
    if report.pass_rate == 1 and not report.counts["not_run"]:
        draft.reason = "All training cases pass: there is nothing to learn from."
        return draft
    if plan.examples:
        _add(plan, draft, f"{ORIGINAL} with examples", with_examples(plan.source.body, plan.examples))
    answers = [normalized(each) for each in plan.wordings]
    _add_wordings(plan, draft, [*answers, *await _proposed(plan, draft.training)])
    if len(draft.texts) > 1:
        draft.training = await plan.grid(draft.texts, plan.training, "training", stop_early=True)
        _choose(draft, draft.training)
    if draft.best == ORIGINAL:
        draft.reason = draft.reason or "No other text was better on the training cases."
        return draft
    pair = {ORIGINAL: plan.source.body, draft.best: draft.texts[draft.best]}
    draft.held_out = await plan.grid(pair, plan.held_out, "held-out")
    return draft


async def _proposed(plan: _Plan, training: Grid) -> list[str | Exception]:
    """Return the proposals of the model, or the errors in place of them."""
    failures = failures_of(training.reports[ORIGINAL])
    file = Proposals(plan.folder)

    async def ask(number: int) -> str | Exception:
        try:
            wording = await file.wording(
                plan.source, failures, number, instruction=plan.instruction, model=plan.proposal_model
            )
            return normalized(wording)
        except Exception as error:
            if ends_run(error):
                raise
            return find_refusal(error) or error

    answers = await parallel_map(ask, range(plan.proposals), max_concurrent=plan.max_concurrent)
    for each in answers:  # one error, though several proposals may have failed in the same way
        if isinstance(each, OSError | EvaluationError) or (
            isinstance(each, Exception) and is_transport_error(each)
        ):
            raise each
    return answers


def _add_wordings(plan: _Plan, draft: _Draft, wordings: Sequence[str | Exception]) -> None:
    """Add wordings to the texts, each with and without examples."""
    for number, wording in enumerate(wordings, start=1):
        if isinstance(wording, Exception):
            draft.rejected.append(f"wording {number}: {describe_error(wording)}")
        elif _add(plan, draft, f"wording {number}", wording) and plan.examples:
            _add(plan, draft, f"wording {number} with examples", with_examples(wording, plan.examples))


def _add(plan: _Plan, draft: _Draft, name: str, body: str) -> bool:
    """Add a text, unless it cannot be used."""
    objection = plan.source.objection(body)
    if objection is None and body in draft.texts.values():
        objection = "it is there already"
    if objection is not None:
        draft.rejected.append(f"{name}: {objection}")
        return False
    draft.texts[name] = body
    return True


def _choose(draft: _Draft, grid: Grid) -> None:
    """Choose the text that passes most, if it is better than the original; of equal ones the shortest."""
    running = [arm for arm in grid.arms if arm.stopped is None and arm.pass_rate is not None]
    best = min(running, key=lambda arm: (-(arm.pass_rate or 0.0), len(draft.texts[arm.name])))
    try:
        comparison = best.report.compare(grid.reports[ORIGINAL], any_subject=True)
    except UndecidedError:
        return
    if best.name != ORIGINAL and comparison.difference > 0:
        draft.best = best.name


def _result(plan: _Plan, draft: _Draft, usage: Usage) -> Improvement:
    comparison: Comparison | None = None
    if draft.held_out is not None:
        reports = draft.held_out.reports
        try:
            comparison = reports[draft.best].compare(reports[ORIGINAL], any_subject=True)
        except UndecidedError as error:
            draft.reason = str(error)
    grids = [grid for grid in (draft.training, draft.held_out) if grid is not None]
    unrun = next(filter(None, map(_unrun_reason, grids)), None)
    if unrun is not None:
        draft.reason = f"{draft.reason} Not all trials were run: {unrun}.".strip()
    wording = draft.texts[draft.best]
    return Improvement(
        subject=subject_name(plan.subject),
        block=plan.source.block.number,
        wording=wording,
        original=plan.source.body,
        diff="" if draft.best == ORIGINAL else plan.source.diff_with(wording),
        comparison=comparison,
        reason=draft.reason,
        training=draft.training,
        held_out=draft.held_out,
        texts=draft.texts,
        rejected=tuple(draft.rejected),
        usage=usage,
        encoding=plan.source.encoding,
    )


def _unrun_reason(grid: Grid) -> str | None:
    """Return the reason why trials of arms that were not stopped early were not run; None if all were."""
    trials = [trial for arm in grid.arms if arm.stopped is None for trial in arm.report.trials]
    return next((trial.error for trial in trials if trial.status == "not_run"), None)


def _checked_count(argument: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EvaluationError(f"{argument} is a number, 0 or more, not {value!r}.")
    return value


def _checked_wordings(wordings: Sequence[str]) -> tuple[str, ...]:
    if isinstance(wordings, str) or not all(map(is_text, wordings)):
        raise EvaluationError(f"wordings is a list of texts, not {wordings!r}.")
    return tuple(wordings)
