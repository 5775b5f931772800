"""The rule by which arms of a grid are stopped early: a test by betting, valid whenever one looks.

A gambler bets, case by case, that one arm is better than another. The wealth after a case with the difference
d (between -1 and 1) is multiplied by 1 + b·d, for a fixed stake b below 1; the mean over nine stakes is used.
If the arm is not better, so that the expected difference of a random case is at most 0, the wealth is a
supermartingale, and the probability that it ever reaches x is at most 1/x (Ville's inequality). So looking
after every case costs nothing, unlike with an ordinary p-value.

With trials 1 to R of each case there are R gamblers for each pair, one for the means of the first r trials.
An arm is stopped if a gambler against it has reached (arms - 1)·R/alpha. For the best arm to be stopped, one
of the (arms - 1)·R gamblers against it must do so, though it has no edge: the probability of that is at most
alpha.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from statistics import fmean

_STAKES = tuple(tenths / 10 for tenths in range(1, 10))


class Gambler:
    """Bets, case by case, that the mean difference is greater than 0.

    If it is not, `greatest` is ever at least x with a probability of at most 1/x.

    Attributes:
        greatest: The greatest wealth that was reached.
    """

    def __init__(self) -> None:
        self._wealths = [1.0] * len(_STAKES)
        self.greatest = 1.0

    def bet(self, difference: float) -> None:
        """Bet on a case.

        Args:
            difference: Its difference, from -1 to 1. The order of cases must not depend on differences.
        """
        if not difference:
            return
        self._wealths = [
            wealth * (1 + stake * difference) for wealth, stake in zip(self._wealths, _STAKES, strict=True)
        ]
        self.greatest = max(self.greatest, sum(self._wealths) / len(_STAKES))


def evidence(differences: Iterable[float]) -> float:
    """Return the greatest wealth that a gambler has reached.

    Args:
        differences: One difference per case, from -1 to 1, in an order that does not depend on them.
    """
    gambler = Gambler()
    for difference in differences:
        gambler.bet(difference)
    return gambler.greatest


def needed_evidence(*, arms: int, trials: int, confidence: float) -> float:
    """Return the wealth at which an arm is stopped.

    Args:
        arms: The number of arms in the grid, stopped ones included.
        trials: The number of trials of each case.
        confidence: The probability that the best arm is not stopped.
    """
    return (arms - 1) * trials / (1 - confidence)


Passes = Sequence[Sequence[bool | None]]
"""The results of an arm, case by case and trial by trial; None for a trial that is not decided."""


def pair_evidence(better: Passes, worse: Passes, *, trials: int) -> float:
    """Return the evidence that one arm is better than another: that of the most convinced gambler.

    Args:
        better: The results of the one arm, in the random order of the cases.
        worse: The results of the other arm, in the same order.
        trials: The number of trials of each case that have been run.
    """
    return max(
        (evidence(_differences(better, worse, first=first)) for first in range(1, trials + 1)), default=1.0
    )


def _differences(better: Passes, worse: Passes, *, first: int) -> Iterable[float]:
    """Yield the differences of pass rates over the first trials; cases that one arm lacks are left out."""
    for ours, theirs in zip(better, worse, strict=True):
        rates = [_rate(ours, first), _rate(theirs, first)]
        if rates[0] is not None and rates[1] is not None:
            yield rates[0] - rates[1]


def _rate(trials: Sequence[bool | None], first: int) -> float | None:
    """Return the pass rate of the first trials; None if not all have been run, or none is decided."""
    decided = [each for each in trials[:first] if each is not None]
    return sum(decided) / len(decided) if decided and len(trials) >= first else None


class StoppingRule:
    """The rule for one grid. It sees every block of cases once, and keeps its gamblers between looks.

    Args:
        arms: The number of arms in the grid.
        trials_per_case: The number of trials of each case in the whole grid.
        confidence: The probability that the best arm is not stopped.
    """

    def __init__(self, *, arms: int, trials_per_case: int, confidence: float) -> None:
        self._needed = needed_evidence(arms=arms, trials=trials_per_case, confidence=confidence)
        self._round = 0
        self._rates: dict[str, dict[int, float]] = {}
        self._gamblers: dict[tuple[str, str], Gambler] = {}
        self._evidence: dict[tuple[str, str], float] = {}

    def look(self, results: Mapping[str, Passes], *, trials: int, start: int) -> dict[str, str]:
        """Return the arms to stop, each with the arm that is better. At least one arm is left.

        Args:
            results: The results of the arms that are not stopped, of the cases of a block.
            trials: The number of trials of these cases that have been run.
            start: The place of the first of them in the random order of the cases.
        """
        if trials != self._round:  # new gamblers, for the means of more trials
            self._round = trials
            self._gamblers.clear()
        rates = {name: [_rate(row, trials) for row in rows] for name, rows in results.items()}
        for name, found in rates.items():
            known = self._rates.setdefault(name, {})
            known.update((place, rate) for place, rate in enumerate(found, start) if rate is not None)
        for pair in permutations(rates, 2):
            self._bet(pair, rates[pair[0]], rates[pair[1]])
        return self._stopped(list(results))

    def _bet(
        self, pair: tuple[str, str], ours: Sequence[float | None], theirs: Sequence[float | None]
    ) -> None:
        gambler = self._gamblers.setdefault(pair, Gambler())
        for our, their in zip(ours, theirs, strict=True):
            if our is not None and their is not None:
                gambler.bet(our - their)
        self._evidence[pair] = max(self._evidence.get(pair, 1.0), gambler.greatest)

    def _stopped(self, running: Sequence[str]) -> dict[str, str]:
        means = {name: fmean(rates.values()) if (rates := self._rates[name]) else 0.0 for name in running}
        best_first = sorted(running, key=lambda each: -means[each])
        stopped: dict[str, str] = {}
        for name in sorted(running, key=lambda each: means[each]):
            for other in best_first:
                if other != name and other not in stopped and self._evidence[other, name] >= self._needed:
                    stopped[name] = other
                    break
        return stopped
