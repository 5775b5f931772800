"""Jobs that run until a test lets them go."""

import anyio


class Held:
    """Jobs by number: each returns its number once it is released."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.running: set[int] = set()
        self.greatest = 0
        self._is_open = False
        self._releases: dict[int, anyio.Event] = {}

    async def job(self, number: int) -> int:
        """Wait to be released."""
        self.begun.append(number)
        self.running.add(number)
        self.greatest = max(self.greatest, len(self.running))
        try:
            if not self._is_open:
                await self._releases.setdefault(number, anyio.Event()).wait()
        finally:
            self.running.remove(number)
        return number

    def release(self, number: int) -> None:
        """Let one job go, also before it has begun."""
        self._releases.setdefault(number, anyio.Event()).set()

    def release_all(self) -> None:
        """Let all jobs go, and those that begin later too."""
        self._is_open = True
        for release in self._releases.values():
            release.set()
