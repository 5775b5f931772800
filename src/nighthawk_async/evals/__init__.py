"""Evaluation: whether a block works, whether a change made it better, and what it costs. Floor 6.

    report = await evaluate(stars, cases, scorers=[equals()], trials=5, executor=executor, seed=1)
    print(report.pass_at(1), report.interval, report.usage.cost)
    report.compare("baseline.jsonl").require_no_regression()

Any async function is a subject. Trials run like all parallel work: in one run, under one budget, in the tree.
Statistics are over cases, never over trials. See the page "Evaluation".
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "arms": ("Arm",),
        "calibration": ("Agreement", "Labelled", "calibrate"),
        "case_files": ("load_cases", "save_cases"),
        "case_variants": ("reviewed", "variants"),
        "cases": ("Case",),
        "comparison": ("CaseDifference", "Comparison", "Verdict"),
        "declarations": ("Evaluation", "evaluation"),
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
        "gates": ("CaseVerdict", "GateResult", "GateVerdict", "check_gate"),
        "grid": ("evaluate_grid",),
        "grid_report": ("ArmComparison", "ArmFigures", "Grid", "load_grid"),
        "html_report": ("report_as_page",),
        "improvement": ("Improvement", "improve"),
        "inspect_ai_export": ("export_inspect_ai",),
        "journal_cases": ("RecordedAnswer", "RecordedRun", "cases_from_journal"),
        "judges": ("Judge", "judge"),
        "junit": ("junit_xml",),
        "markdown": ("markdown_table",),
        "promptfoo_export": ("export_promptfoo",),
        "report": ("Report", "load_report"),
        "report_tree": ("FollowedReport", "report_as_tree"),
        "results": ("CaseResult", "TrialResult", "TrialStatus"),
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
        "scores": ("Score", "Scored", "Scorer", "Trial"),
        "seeds": ("current_seed",),
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
