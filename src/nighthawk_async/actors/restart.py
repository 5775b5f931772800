"""Whether and when children of a supervisor are started again.

Plain values and arithmetic. What a supervisor makes of them is decided in `supervisor_state`.
"""

import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from .argument_checks import check_seconds, check_whole_number

__all__ = ["Restart", "RestartHistory", "RestartLimit", "RestartMode", "check_restart"]

RestartMode: TypeAlias = Literal["never", "on_failure", "always"]
"""`on_failure`: when it raised. `always`: when it returned, too. A cancellation is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Conditions and delay of a child's restarts. The limit for restarts belongs to the supervisor.

    The delay grows (by `factor`) with every restart of the child within the window of its supervisor. A
    deterministic jitter, which depends on the child's name and on how often it was restarted, keeps children
    apart that fail together.

    Args:
        mode: After which endings it is restarted.
        backoff_seconds: The delay before the first restart within the window, in seconds.
        max_backoff_seconds: The longest delay, jitter not included, in seconds.
        factor: By how much the delay grows from one restart to the next.
        jitter_seconds: What is added to the delay at most, in seconds.

    Raises:
        ValueError: A value is out of range, or no number.
    """

    mode: RestartMode = "on_failure"
    backoff_seconds: float = 0.25
    max_backoff_seconds: float = 30.0
    factor: float = 2.0
    jitter_seconds: float = 0.1

    def __post_init__(self) -> None:
        if self.mode not in get_args(RestartMode):
            raise ValueError(f"mode must be one of {get_args(RestartMode)}, not {self.mode!r}")
        for name in ("backoff_seconds", "max_backoff_seconds", "jitter_seconds"):
            _check_finite_seconds(name, getattr(self, name))
        _check_factor(self.factor)

    def applies_to(self, *, is_failure: bool) -> bool:
        """Whether a child that ended is restarted."""
        return self.mode == "always" or (is_failure and self.mode == "on_failure")

    def delay_seconds(self, child: str, *, recent_restarts: int, restart_number: int) -> float:
        """The delay before a restart, in seconds.

        Args:
            child: The name of the child.
            recent_restarts: How many restarts of it there were within the window before this one.
            restart_number: Which restart of the child this is; the first is 1.
        """
        try:
            growth = float(self.factor) ** recent_restarts
        except OverflowError:
            growth = math.inf
        backoff = min(self.backoff_seconds * growth, self.max_backoff_seconds) if self.backoff_seconds else 0
        return backoff + random.Random(f"{child} {restart_number}").uniform(0, self.jitter_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimit:
    """Limit for the restarts of all children together, and the reaction of the supervisor.

    Args:
        max_restarts: How many restarts within the window are not too many.
        window_seconds: The length of the rolling window, in seconds.
        circuit_open_seconds: How long a child that would need one more stays down before it is tried again,
            in seconds. None: the supervisor gives up instead.

    Raises:
        ValueError: A value is out of range, or no number.
    """

    max_restarts: int
    window_seconds: float
    circuit_open_seconds: float | None

    def __post_init__(self) -> None:
        check_whole_number("max_restarts", self.max_restarts, least=0)
        check_seconds("window_seconds", self.window_seconds)
        if self.window_seconds == 0:
            raise ValueError("window_seconds must be more than 0")
        if self.circuit_open_seconds is not None:
            _check_finite_seconds("circuit_open_seconds", self.circuit_open_seconds)


class RestartHistory:
    """The latest restarts, as far back as they matter to a limit.

    Args:
        limit: The limit.
    """

    __slots__ = ("_times", "_window_seconds", "count")

    def __init__(self, limit: RestartLimit) -> None:
        self._window_seconds = limit.window_seconds
        self._times: deque[float] = deque(maxlen=limit.max_restarts)
        self.count = 0

    def recent(self, now: float) -> int:
        """The number of restarts within the window that ends now; never more than the limit allows."""
        while self._times and self._times[0] <= now - self._window_seconds:
            self._times.popleft()
        return len(self._times)

    def add(self, now: float) -> None:
        """There is a restart."""
        self.count += 1
        self._times.append(now)


def check_restart(restart: Restart) -> None:
    """Refuse a policy that is none.

    Raises:
        TypeError: It is no `Restart`.
    """
    if not isinstance(cast("object", restart), Restart):
        raise TypeError(f"restart must be a Restart, not {restart!r}")


def _check_finite_seconds(name: str, seconds: object) -> None:
    check_seconds(name, seconds)
    if seconds == math.inf:
        raise ValueError(f"{name} must be finite")


def _check_factor(factor: object) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor < math.inf:
        raise ValueError(f"factor must be a finite number of at least 1, not {factor!r}")
