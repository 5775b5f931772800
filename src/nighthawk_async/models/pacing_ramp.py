"""Number of requests in flight to a model that refused some. Pure.

Additive increase, multiplicative decrease: each refusal leaves half of what is in flight, and as many
successes as there is room for make room for one more. So a crowd that was refused does not come back as a
crowd, and the server's own measure is found without being told. Faster growth would overshoot so far that the
same requests are refused again and again, until they may not be sent any more. There is no limit before the
first refusal, nor once as many were in flight again as at that time.
"""

__all__ = ["Ramp"]


class Ramp:
    """A limit of requests in flight that a model's refusals set and its successes lift."""

    def __init__(self) -> None:
        self._most: int | None = None
        self._most_before = 0
        self._successes = 0

    def is_full(self, in_flight: int) -> bool:
        """Whether another request must wait until one of those in flight ends.

        Args:
            in_flight: Requests in flight.
        """
        return self._most is not None and in_flight >= self._most

    def refused(self, in_flight: int) -> None:
        """Take note that the server refused a request because it has too many.

        Args:
            in_flight: Requests in flight, the refused one included.
        """
        if self._most is None:
            self._most = self._most_before = in_flight
        self._most = min(self._most, max(in_flight // 2, 1))
        self._successes = 0

    def succeeded(self, in_flight: int) -> None:
        """Take note that a request that the server accepted is over.

        Args:
            in_flight: Requests in flight, that one included.
        """
        if self._most is None or in_flight < self._most:
            return  # it says nothing about more requests at once
        self._successes += 1
        if self._successes >= self._most:
            self._most += 1
            self._successes = 0
        if self._most >= self._most_before:
            self._most = None
