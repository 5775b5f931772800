"""Evaluation: whether a block works, whether a change made it better, and what it costs.

    report = await evaluate(stars, cases, scorers=[equals()], trials=5, model=model, seed=1)
    print(report.pass_at(1), report.interval, report.usage.cost)
    report.compare("baseline.jsonl").require_no_regression()

Any async function is a subject. Trials run like all parallel work: in one run, under one budget, in the tree.
Statistics are over cases, never over trials. See the page "Evaluation".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .arms import Arm
    from .calibration import Agreement as Agreement, Labelled as Labelled, calibrate as calibrate
    from .case_files import load_cases, save_cases
    from .case_variants import reviewed as reviewed, variants
    from .cases import Case
    from .comparison import CaseDifference as CaseDifference, Comparison as Comparison, Verdict as Verdict
    from .declarations import Evaluation
    from .errors import (
        CaseError as CaseError,
        EvaluationError,
        NoExecutorError as NoExecutorError,
        RegressionError,
        ReportError as ReportError,
        ScoreError as ScoreError,
        UndecidedError,
    )
    from .evaluating import evaluate
    from .gates import (
        CaseVerdict as CaseVerdict,
        GateResult as GateResult,
        GateVerdict as GateVerdict,
        check_gate,
    )
    from .grid import evaluate_grid
    from .grid_report import ArmComparison as ArmComparison, ArmFigures as ArmFigures, Grid as Grid, load_grid
    from .html_report import report_as_page
    from .improvement import Improvement as Improvement, improve
    from .inspect_ai_export import export_inspect_ai
    from .journal_cases import (
        RecordedAnswer as RecordedAnswer,
        RecordedRun as RecordedRun,
        cases_from_journal,
    )
    from .judges import Judge as Judge, judge
    from .junit import junit_xml
    from .markdown import markdown_table
    from .promptfoo_export import export_promptfoo
    from .report import Report, load_report
    from .report_history import History as History, history
    from .report_tree import FollowedReport as FollowedReport, report_as_tree
    from .results import CaseResult as CaseResult, TrialResult as TrialResult, TrialStatus as TrialStatus
    from .scorers import (
        close_to as close_to,
        cost_at_most,
        equals,
        holds,
        json_difference,
        matches_schema,
        seconds_at_most,
        similar_text,
    )
    from .scores import Score, Scored as Scored, Scorer as Scorer, Trial
    from .seeds import current_seed
    from .split import named_splits
    from .statistics import (
        Interval as Interval,
        bootstrap_interval as bootstrap_interval,
        cases_needed as cases_needed,
        effect_size as effect_size,
        holm as holm,
        paired_p_value as paired_p_value,
        pass_all as pass_all,
        pass_at as pass_at,
    )
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "arms": ("Arm",),
            "calibration": (
                "Agreement",
                "Labelled",
                "calibrate",
            ),
            "case_files": (
                "load_cases",
                "save_cases",
            ),
            "case_variants": (
                "reviewed",
                "variants",
            ),
            "cases": ("Case",),
            "comparison": (
                "CaseDifference",
                "Comparison",
                "Verdict",
            ),
            "declarations": ("Evaluation",),
            "errors": (
                "CaseError",
                "EvaluationError",
                "NoExecutorError",
                "RegressionError",
                "ReportError",
                "ScoreError",
                "UndecidedError",
            ),
            "evaluating": ("evaluate",),
            "gates": (
                "CaseVerdict",
                "GateResult",
                "GateVerdict",
                "check_gate",
            ),
            "grid": ("evaluate_grid",),
            "grid_report": (
                "ArmComparison",
                "ArmFigures",
                "Grid",
                "load_grid",
            ),
            "html_report": ("report_as_page",),
            "improvement": (
                "Improvement",
                "improve",
            ),
            "inspect_ai_export": ("export_inspect_ai",),
            "journal_cases": (
                "RecordedAnswer",
                "RecordedRun",
                "cases_from_journal",
            ),
            "judges": (
                "Judge",
                "judge",
            ),
            "junit": ("junit_xml",),
            "markdown": ("markdown_table",),
            "promptfoo_export": ("export_promptfoo",),
            "report": (
                "Report",
                "load_report",
            ),
            "report_history": (
                "History",
                "history",
            ),
            "report_tree": (
                "FollowedReport",
                "report_as_tree",
            ),
            "results": (
                "CaseResult",
                "TrialResult",
                "TrialStatus",
            ),
            "scorers": (
                "close_to",
                "cost_at_most",
                "equals",
                "holds",
                "json_difference",
                "matches_schema",
                "seconds_at_most",
                "similar_text",
            ),
            "scores": (
                "Score",
                "Scored",
                "Scorer",
                "Trial",
            ),
            "seeds": ("current_seed",),
            "split": ("named_splits",),
            "statistics": (
                "Interval",
                "bootstrap_interval",
                "cases_needed",
                "effect_size",
                "holm",
                "paired_p_value",
                "pass_all",
                "pass_at",
            ),
        },
    )

__all__ = [
    "Arm",
    "Case",
    "Evaluation",
    "EvaluationError",
    "RegressionError",
    "Report",
    "Score",
    "Trial",
    "UndecidedError",
    "cases_from_journal",
    "check_gate",
    "cost_at_most",
    "current_seed",
    "equals",
    "evaluate",
    "evaluate_grid",
    "export_inspect_ai",
    "export_promptfoo",
    "history",
    "holds",
    "improve",
    "json_difference",
    "judge",
    "junit_xml",
    "load_cases",
    "load_grid",
    "load_report",
    "markdown_table",
    "matches_schema",
    "named_splits",
    "report_as_page",
    "report_as_tree",
    "save_cases",
    "seconds_at_most",
    "similar_text",
    "variants",
]
