"""Times the part of a round that counts, by the clock and by the processor."""

import time

__all__ = ["Stopwatch"]


class Stopwatch:
    """Started when made. Processor time is that of all threads of this process."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._began_cpu = time.process_time()

    def figures(self, operations: int) -> dict[str, float]:
        """What one of so many operations took since the start, as the metrics `wall` and `cpu`."""
        wall, cpu = time.perf_counter() - self._began, time.process_time() - self._began_cpu
        return {"wall": wall / operations, "cpu": cpu / operations}
