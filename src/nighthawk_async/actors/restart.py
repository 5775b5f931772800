"""Whether and when a child of a supervisor is started again. Floor 1.

Plain values and arithmetic. What a supervisor makes of them is decided in `supervisor_state`.
"""

import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

__all__ = ["Restart", "RestartHistory", "RestartMode"]

RestartMode: TypeAlias = Literal["never", "on_failure", "always"]
"""`on_failure`: when it raised. `always`: when it returned, too. A cancellation is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """When a child is restarted, after which delay, and when it has been restarted too often.

    The delay doubles (by `factor`) with every restart within the window. A deterministic jitter, which
    depends on the child's name and on how often it was restarted, keeps children apart that fail together.

    Args:
        mode: After which endings it is restarted.
        max_restarts: How many restarts within the window are not too many.
        window_seconds: The length of the rolling window, in seconds.
        backoff_seconds: The delay before the first restart within the window, in seconds.
        max_backoff_seconds: The longest delay, jitter not included, in seconds.
        factor: By how much the delay grows from one restart to the next.
        jitter_seconds: What is added to the delay at most, in seconds.
        circuit_open_seconds: How long a child that was restarted too often stays down before it is tried
            again, in seconds. None: the supervisor gives up instead.

    Raises:
        ValueError: A value is out of range.
    """

    mode: RestartMode = "on_failure"
    max_restarts: int = 5
    window_seconds: float = 60.0
    backoff_seconds: float = 0.25
    max_backoff_seconds: float = 30.0
    factor: float = 2.0
    jitter_seconds: float = 0.1
    circuit_open_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(RestartMode):
            raise ValueError(f"mode must be one of {get_args(RestartMode)}, not {self.mode!r}")
        if self.max_restarts < 0:
            raise ValueError(f"max_restarts must be at least 0, not {self.max_restarts}")
        if not self.factor >= 1:
            raise ValueError(f"factor must be at least 1, not {self.factor}")
        if not self.window_seconds > 0:
            raise ValueError(f"window_seconds must be more than 0, not {self.window_seconds}")
        for name in ("backoff_seconds", "max_backoff_seconds", "jitter_seconds", "circuit_open_seconds"):
            seconds: float | None = getattr(self, name)
            if seconds is not None and not 0 <= seconds < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, not {seconds}")

    def applies_to(self, *, is_failure: bool) -> bool:
        """Whether a child that ended is restarted."""
        return self.mode == "always" or (is_failure and self.mode == "on_failure")

    def delay_seconds(self, child: str, *, recent_restarts: int, restart_number: int) -> float:
        """How many seconds a child is left down before a restart.

        Args:
            child: The name of the child.
            recent_restarts: How many restarts there were within the window before this one.
            restart_number: Which restart of the child this is; the first is 1.
        """
        try:
            backoff = self.backoff_seconds * self.factor**recent_restarts
        except OverflowError:
            backoff = self.max_backoff_seconds
        jitter = random.Random(f"{child} {restart_number}").uniform(0, self.jitter_seconds)
        return min(backoff, self.max_backoff_seconds) + jitter


class RestartHistory:
    """When a child was restarted, as far back as its window reaches.

    Args:
        restart: Its policy.
    """

    __slots__ = ("_restart", "_times", "count")

    def __init__(self, restart: Restart) -> None:
        self._restart = restart
        self._times: deque[float] = deque()
        self.count = 0

    def recent(self, now: float) -> int:
        """How many restarts lie within the window that ends now."""
        while self._times and self._times[0] <= now - self._restart.window_seconds:
            self._times.popleft()
        return len(self._times)

    def add(self, time: float) -> None:
        """There is a restart at that time, which is not before the last one."""
        self.count += 1
        self._times.append(time)
