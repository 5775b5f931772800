"""`nighthawk-async eval`: evaluations with gates, for terminals and for continuous integration."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import nighthawk_async as nh

from ..causes import RunEndingError, leaves_of
from ..configuration import StepExecutorConfiguration
from ..errors import ConfigurationError, NighthawkError
from .demo_command import DEMO_MODEL
from .run_command import ExecutorOnDemand
from .run_script import ArgumentError, Backend
from .worker_command import executor_of, refuse_nan

_Targets = Annotated[
    list[str],
    typer.Argument(
        help="The evaluations: module:name, file.py:name, or a module, for all that it has.", metavar="TARGET"
    ),
]
_Model = Annotated[
    str | None,
    typer.Option(
        help=f"The model, in place of the evaluation's own. [default: {DEMO_MODEL}]", metavar="PROVIDER:NAME"
    ),
]
_BaseUrl = Annotated[
    str | None, typer.Option(help="With --model: the address at which it is served.", metavar="URL")
]
_Cases = Annotated[
    list[str] | None,
    typer.Option("--case", help="Only cases with this text in their name; may be repeated.", metavar="TEXT"),
]
_Trials = Annotated[int | None, typer.Option(min=1, help="Trials of each case.")]
_AtLeast = Annotated[
    float | None, typer.Option(min=0, max=1, callback=refuse_nan, help="The least pass rate, from 0 to 1.")
]
_BudgetUsd = Annotated[
    float | None,
    typer.Option(min=0, callback=refuse_nan, help="The most that everything may cost, in US dollars."),
]
_MaxConcurrent = Annotated[int | None, typer.Option(min=1, help="The most trials at the same time.")]
_Seed = Annotated[int | None, typer.Option(help="The seed of trials and intervals.")]
_Timeout = Annotated[
    float | None,
    typer.Option(min=0, callback=refuse_nan, help="The most seconds of one call.", metavar="SECONDS"),
]
_Baseline = Annotated[
    Path | None,
    typer.Option(help="An earlier report to compare with; for several evaluations a folder of them."),
]
_Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="End with status 3 too if trials are not decided, or if the pass rate fell and the data do not "
        "decide whether that is a regression.",
    ),
]
_Report = Annotated[
    Path | None,
    typer.Option(
        help="Append each trial to this report. If it is there, only what is missing in it is run. For "
        "several evaluations, a folder."
    ),
]
_Junit = Annotated[Path | None, typer.Option(help="Write JUnit XML.", metavar="FILE")]
_Markdown = Annotated[Path | None, typer.Option(help="Write Markdown for a pull request.", metavar="FILE")]
_Html = Annotated[
    Path | None,
    typer.Option(help="Write a page of HTML. For several evaluations, a folder.", metavar="FILE"),
]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
_Backend = Annotated[Backend, typer.Option(help="The backend of the event loop.")]


def evaluate(
    targets: _Targets,
    model: _Model = None,
    base_url: _BaseUrl = None,
    case: _Cases = None,
    trials: _Trials = None,
    at_least: _AtLeast = None,
    budget_usd: _BudgetUsd = None,
    max_concurrent: _MaxConcurrent = None,
    seed: _Seed = None,
    timeout: _Timeout = None,
    baseline: _Baseline = None,
    strict: _Strict = False,
    report: _Report = None,
    junit: _Junit = None,
    markdown: _Markdown = None,
    html: _Html = None,
    quiet: _Quiet = False,
    backend: _Backend = Backend.trio,
) -> None:
    """Evaluate functions: run the trials of their cases, and judge the results.

    The exit status is 0 if every gate holds; 1 if a pass rate is below --at-least, or the report regressed
    from the --baseline; 2 if the command line or an evaluation is wrong; 3 if nothing was decided, or with
    --strict, not enough; 130 after Ctrl-C.
    """
    from . import eval_outputs, eval_running, eval_targets  # here, since the other commands do not need them

    overrides: dict[str, Any] = {
        "trials": trials,
        "at_least": at_least,
        "max_concurrent": max_concurrent,
        "seed": seed,
        "timeout": timeout,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    eval_outputs.check_outputs(junit, markdown, report, baseline, html)
    try:
        loaded = [each for target in targets for each in eval_targets.load_evaluations(target)]
        executor = _executor(model, base_url)
        evaluations = [
            replace(each, model=(each.model if model is None else None) or executor, **given)
            for each in (eval_targets.selected_cases(loaded, case) if case else loaded)
        ]
        files = eval_running.ReportFiles(report, baseline, html, eval_running.file_names(evaluations))
        ways = eval_running.EvaluationWays(quiet=quiet, strict=strict, backend=backend, budget_usd=budget_usd)
        results = eval_running.evaluate_all(evaluations, files, ways)
    except Exception as error:
        refusal = _as_argument_error(error)
        if refusal is None:
            raise
        raise refusal from error
    eval_outputs.write_outputs(results, files, junit=junit, markdown=markdown)
    status = eval_running.status_of(results)
    if status:
        raise typer.Exit(status)


class _DefaultModelError(ConfigurationError, RunEndingError):
    """The default model is not available; it ends the evaluation, not a trial."""


class _DefaultModel(ExecutorOnDemand):
    """The default model, made for the first step of a subject, which may have none."""

    def _make(self) -> nh.AgentStepExecutor:
        try:
            return super()._make()
        except ConfigurationError as error:
            raise _DefaultModelError(f"{error} Or name another model: --model provider:name.") from error


def _executor(model: str | None, base_url: str | None) -> Any:
    if model is None:
        if base_url is not None:
            raise ArgumentError("--base-url needs --model: it is the address of that model")
        return _DefaultModel(StepExecutorConfiguration(model=DEMO_MODEL))
    if base_url is None:
        return executor_of(model)
    configuration = StepExecutorConfiguration(model=model, model_settings={"base_url": base_url})
    return nh.AgentStepExecutor.from_configuration(configuration)


def _as_argument_error(error: Exception) -> ArgumentError | None:
    """Return the error of status 2 for what ends an evaluation; None for a mistake of this library.

    Trials in flight together fail together. A closed pipe ends every command alike.
    """
    leaves = list(leaves_of(error))
    if not all(isinstance(each, NighthawkError | OSError) for each in leaves):
        return None
    if any(isinstance(each, BrokenPipeError) for each in leaves):
        return None
    return ArgumentError("; ".join(dict.fromkeys(map(str, leaves))))
