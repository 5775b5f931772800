"""The mark of test functions that are evaluations. It loads nothing, because pytest asks every function."""

CASE_FIXTURE = "evaluation_case"
EXECUTOR_FIXTURE = "evaluation_executor"
MARK = "_nighthawk_evaluation"


def is_evaluation(function: object) -> bool:
    """Whether a function is decorated with `evaluation`."""
    return getattr(function, MARK, None) is not None
