"""Results of trials and cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..observation import NodeState
from ..types.messages import Citation
from ..types.usage import Usage
from .cases import Severity
from .errors import UndecidedError
from .scores import Score

TrialStatus: TypeAlias = Literal["passed", "failed", "error", "transport", "unscored", "not_run"]
"""The end of a trial.

`passed`: all scorers agree. `failed`: a scorer does not. `error`: the subject raised. `transport`: requests
failed on their way, also when they were sent again. `unscored`: a scorer raised, or gave no valid score.
`not_run`: the budget ended before it, or in it, or the configuration
allows no requests, for example without an API key. The first three are decided; the others say nothing about
the subject, and no figure counts them.
"""

DECIDED: frozenset[TrialStatus] = frozenset({"passed", "failed", "error"})
STATUSES: tuple[TrialStatus, ...] = ("passed", "failed", "error", "transport", "unscored", "not_run")


Reliability: TypeAlias = Literal["flaky", "all_fail", "all_pass", "undecided"]
"""The agreement of the decided trials of a case: all passed, none did, or some did."""

RELIABILITIES: tuple[Reliability, ...] = ("flaky", "all_fail", "all_pass", "undecided")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of one trial.

    Args:
        case: The name of the case.
        number: The number of the trial of the case, counted from 1.
        status: The end of the trial.
        seed: The seed of the trial.
        scores: The scores, by the names of the scorers; those that it got before a scorer raised, too.
        output: The result of the subject as a short text.
        error: The error of the subject, the transport or the scorer, or the reason why it was not run.
        seconds: The time that the subject took, in seconds. Results that differ only in it are equal.
        usage: The usage of the subject, all attempts together.
        scoring_usage: The usage of the scorers.
        retries: The number of times that the trial was begun again because of a transport error.
        citations: The sources that the model cited in the last step of the subject.
    """

    case: str
    number: int
    status: TrialStatus
    seed: int = 0
    scores: Mapping[str, Score] = field(default_factory=dict[str, Score])
    output: str = ""
    error: str = ""
    seconds: float = field(default=0.0, compare=False)
    usage: Usage = field(default_factory=Usage)
    scoring_usage: Usage = field(default_factory=Usage)
    retries: int = 0
    citations: tuple[Citation, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether it says something about the subject."""
        return self.status in DECIDED

    @property
    def has_passed(self) -> bool:
        """Whether it passed."""
        return self.status == "passed"

    @property
    def node_state(self) -> NodeState:
        """The state of its node in the tree."""
        if self.status in ("passed", "failed"):
            return "completed"
        return "cancelled" if self.status == "not_run" else "failed"

    def shown(self) -> dict[str, str]:
        """Return what came of it, as short texts by name: the status, the output or the error, the scores."""
        texts = {"status": self.status, "output": self.output, "error": self.error}
        scores = {f"score {name}": str(score) for name, score in self.scores.items()}
        return {name: text for name, text in texts.items() if text} | scores


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The results of all trials of one case.

    Args:
        name: The name of the case.
        inputs: The inputs, as a short text.
        expected: The expectation, as a short text; empty for none.
        tags: The tags of the case.
        digest: The digest of inputs and expectation; None when it differs between processes.
        trials: The trials, in order.
        severity: The weight of the case in a gate.
    """

    name: str
    inputs: str = ""
    expected: str = ""
    tags: tuple[str, ...] = ()
    digest: str | None = None
    trials: tuple[TrialResult, ...] = ()
    severity: Severity = "blocking"

    @property
    def reliability(self) -> Reliability:
        """The agreement of its decided trials."""
        if not self.decided:
            return "undecided"
        return "all_pass" if self.passed == self.decided else "flaky" if self.passed else "all_fail"

    @property
    def is_solved(self) -> bool:
        """Whether more than half of its decided trials passed."""
        return self.passed * 2 > self.decided

    @property
    def decided(self) -> int:
        """The number of decided trials."""
        return sum(each.is_decided for each in self.trials)

    @property
    def passed(self) -> int:
        """The number of trials that passed."""
        return sum(each.has_passed for each in self.trials)

    @property
    def pass_rate(self) -> float:
        """The part of decided trials that passed.

        Raises:
            UndecidedError: No trial was decided.
        """
        if not self.decided:
            raise UndecidedError(f"No trial of case {self.name!r} was decided.")
        return self.passed / self.decided
