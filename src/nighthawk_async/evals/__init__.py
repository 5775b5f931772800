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
    from ..policies.attempts.samples import current_seed
    from .case_files import load_cases, save_cases
    from .case_sets import named_splits, reviewed as reviewed, variants
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
    from .exports.html_report import report_as_page
    from .exports.junit import junit_xml
    from .exports.markdown import markdown_table
    from .exports.other_tools import export_inspect_ai, export_promptfoo
    from .exports.report_history import History as History, history
    from .exports.report_tree import FollowedReport as FollowedReport, report_as_tree
    from .gates import (
        CaseVerdict as CaseVerdict,
        GateResult as GateResult,
        GateVerdict as GateVerdict,
        check_gate,
    )
    from .grid import Arm, evaluate_grid
    from .grid_report import ArmComparison as ArmComparison, ArmFigures as ArmFigures, Grid as Grid, load_grid
    from .improvement import Improvement as Improvement, improve
    from .journal_cases import (
        RecordedAnswer as RecordedAnswer,
        RecordedRun as RecordedRun,
        cases_from_journal,
    )
    from .judges import (
        Agreement as Agreement,
        Judge as Judge,
        Labelled as Labelled,
        calibrate as calibrate,
        judge,
    )
    from .report import Report, load_report
    from .results import CaseResult as CaseResult, TrialResult as TrialResult, TrialStatus as TrialStatus
    from .scores import (
        Score,
        Scored as Scored,
        Scorer as Scorer,
        Trial,
        close_to as close_to,
        cost_at_most,
        equals,
        holds,
        json_difference,
        matches_schema,
        seconds_at_most,
        similar_text,
    )
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
            "..policies.attempts.samples": ("current_seed",),
            "case_files": (
                "load_cases",
                "save_cases",
            ),
            "case_sets": (
                "named_splits",
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
            "exports.html_report": ("report_as_page",),
            "exports.junit": ("junit_xml",),
            "exports.markdown": ("markdown_table",),
            "exports.other_tools": (
                "export_inspect_ai",
                "export_promptfoo",
            ),
            "exports.report_history": (
                "History",
                "history",
            ),
            "exports.report_tree": (
                "FollowedReport",
                "report_as_tree",
            ),
            "gates": (
                "CaseVerdict",
                "GateResult",
                "GateVerdict",
                "check_gate",
            ),
            "grid": (
                "Arm",
                "evaluate_grid",
            ),
            "grid_report": (
                "ArmComparison",
                "ArmFigures",
                "Grid",
                "load_grid",
            ),
            "improvement": (
                "Improvement",
                "improve",
            ),
            "journal_cases": (
                "RecordedAnswer",
                "RecordedRun",
                "cases_from_journal",
            ),
            "judges": (
                "Agreement",
                "Judge",
                "Labelled",
                "calibrate",
                "judge",
            ),
            "report": (
                "Report",
                "load_report",
            ),
            "results": (
                "CaseResult",
                "TrialResult",
                "TrialStatus",
            ),
            "scores": (
                "Score",
                "Scored",
                "Scorer",
                "Trial",
                "close_to",
                "cost_at_most",
                "equals",
                "holds",
                "json_difference",
                "matches_schema",
                "seconds_at_most",
                "similar_text",
            ),
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
