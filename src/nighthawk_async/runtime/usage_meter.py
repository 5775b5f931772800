"""Adding up what model requests consume."""

import threading
from collections.abc import Iterator, Mapping

from ..errors import CorrectionCause
from ..types.usage import Usage

__all__ = ["UsageMeter"]


class UsageMeter:
    """Adds up usage per model, and hands every addition on to the meter of the enclosing scope.

    Steps on several threads may share a meter. Its copies and pickles are snapshots.

    Args:
        parent: The meter of the enclosing scope; None for the outermost.
    """

    __slots__ = ("_by_model", "_corrections", "_lock", "_parent", "_steps")

    def __init__(self, parent: "UsageMeter | None" = None) -> None:
        self._parent = parent
        self._by_model: dict[str, Usage] = {}
        self._steps = 0
        self._corrections: dict[CorrectionCause, int] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[dict[str, Usage], int, dict[CorrectionCause, int]]:
        """Return the usage so far for copies and pickles. They pass nothing on to an enclosing scope."""
        with self._lock:
            return dict(self._by_model), self._steps, dict(self._corrections)

    def __setstate__(self, state: tuple[dict[str, Usage], int, dict[CorrectionCause, int]]) -> None:
        self._by_model, self._steps, self._corrections = state
        self._parent, self._lock = None, threading.Lock()

    @property
    def usage(self) -> Usage:
        """The usage so far, all models together."""
        return sum(self.usage_by_model.values(), Usage())

    @property
    def usage_by_model(self) -> Mapping[str, Usage]:
        """The usage so far, by model id; a snapshot."""
        with self._lock:
            return dict(self._by_model)

    @property
    def steps(self) -> int:
        """The number of steps that have begun."""
        return self._steps

    @property
    def corrections(self) -> Mapping[CorrectionCause, int]:
        """The number of corrections by cause; a snapshot."""
        with self._lock:
            return dict(self._corrections)

    def add(self, model_name: str, usage: Usage) -> None:
        """Count the usage of one model request here and in every enclosing scope.

        Args:
            model_name: The model id.
            usage: The usage; what cannot be true of it is left out.
        """
        usage = usage.credible()
        for meter in self._path():
            with meter._lock:
                meter._by_model[model_name] = meter._by_model.get(model_name, Usage()) + usage

    def count_step(self) -> None:
        """Count a step that begins, here and in every enclosing scope."""
        for meter in self._path():
            with meter._lock:
                meter._steps += 1

    def count_correction(self, cause: CorrectionCause) -> None:
        """Count that a model was told that something was wrong, here and in every enclosing scope.

        Args:
            cause: The cause of the correction.
        """
        for meter in self._path():
            with meter._lock:
                meter._corrections[cause] = meter._corrections.get(cause, 0) + 1

    def _path(self) -> "Iterator[UsageMeter]":
        meter: UsageMeter | None = self
        while meter is not None:
            yield meter
            meter = meter._parent
