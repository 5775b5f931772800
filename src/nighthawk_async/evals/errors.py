"""Errors of evaluations.

NighthawkError
├── EvaluationError             an evaluation, or a figure of one, cannot be had as asked
│   ├── CaseError                   a case is malformed, cannot be built, or has a name that is taken
│   ├── ScoreError                  a score is no number, or outside its range
│   ├── NoExecutorError             the subject runs a natural block, and there is no executor
│   ├── UndecidedError              too few trials were decided for a figure
│   └── ReportError                 a report cannot be read, or does not belong to the evaluation
└── RegressionError             a comparison found a regression, or a gate was not reached
"""

from collections.abc import Sequence

from ..causes import RunEndingError
from ..errors import NighthawkError
from ..pickling import set_public_module


class EvaluationError(NighthawkError):
    """An evaluation, or a figure of one, cannot be had as asked."""


class CaseError(EvaluationError):
    """A case is malformed, cannot be built, or has a name that is taken.

    Args:
        message: The fault.
        filename: The file of the case, when it comes from one.
        line: The line of the case in that file, counted from 1, when known.
    """

    def __init__(self, message: str, *, filename: str | None = None, line: int | None = None) -> None:
        place = "" if filename is None else f"{filename}: " if line is None else f"{filename}:{line}: "
        super().__init__(place + message)
        self.filename = filename
        self.line = line


class ScoreError(EvaluationError):
    """A score is no number, or a plain number outside 0 to 1."""


class NoExecutorError(EvaluationError, RunEndingError):
    """The subject runs a natural block, and there is no executor. It ends the evaluation."""


class UndecidedError(EvaluationError):
    """Too few trials were decided for a figure."""


class ReportError(EvaluationError):
    """A report cannot be read, has another version, or does not belong to the evaluation."""


class RegressionError(NighthawkError):
    """A comparison found a regression.

    Args:
        message: The comparison, in words.
        cases: The names of the cases that became worse, the worst first.
    """

    def __init__(self, message: str, *, cases: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.cases = tuple(cases)


set_public_module("evals", globals())
