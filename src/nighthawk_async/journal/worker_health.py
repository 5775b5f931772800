"""The state of a worker, and its ASGI application: its health, and its metrics as Prometheus reads them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from msgspec import Struct

from . import queue_suspects, queue_table
from .database import Database
from .errors import JournalStoreError
from .store import JournalStore

_STORE_SECONDS = 5.0
"""The time within which the store has to answer."""
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"


class WorkerStatistics(Struct, frozen=True, kw_only=True):
    """The state of a worker at one moment.

    Args:
        claimed: The number of entries that it has claimed so far.
        running: The number of runs in progress.
        ended: The number of runs that ended with a result.
        failed: The number of runs that failed.
        parked: The number of lives that ended because the run was parked.
        returned: The number of lives after which the entry went back into the queue.
        lost: The number of entries that another worker has taken over.
        polled_at: The time at which it last read the queue, in seconds since 1970; None for never.
        is_store_reachable: Whether its last use of the store succeeded.
        store_error: The error of that use; empty for none.
        is_draining: Whether it claims no more entries.
    """

    claimed: int
    running: int
    ended: int
    failed: int
    parked: int
    returned: int
    lost: int
    polled_at: float | None
    is_store_reachable: bool
    store_error: str
    is_draining: bool


class WorkerApplication:
    """The ASGI application of a worker, on any event loop.

    - `/health`: the state as JSON, with the status 200, or 503 if the worker drains or the store does not
      answer within 5 seconds.
    - `/metrics`: the same as text for Prometheus.

    Args:
        store: The store.
        queue: The queue.
        statistics: Returns the state of the worker.
    """

    def __init__(self, store: JournalStore, queue: str, statistics: Callable[[], WorkerStatistics]) -> None:
        self._store = store
        self._queue = queue
        self._statistics = statistics

    async def __call__(
        self,
        scope: Any,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        path = scope["path"].removeprefix(scope.get("root_path", "")) if scope["type"] == "http" else ""
        if path == "/health":
            await _answer(send, *await self._health())
        elif path == "/metrics":
            await _answer(send, 200, _TEXT, await self._metrics())
        elif scope["type"] == "http":
            await _answer(send, 404, _TEXT, "not found\n")

    async def _health(self) -> tuple[int, bytes, str]:
        entries, suspects, problem = await self._count_entries()
        state = self._statistics()
        problem = problem or state.store_error
        status = "draining" if state.is_draining else "store unreachable" if problem else "ok"
        body = {
            "status": status,
            "queue": self._queue,
            "claimed": state.claimed,
            "running": state.running,
            "parked": None if entries is None else entries["parked"],
            "entries": entries,
            "suspects": suspects,
            "polled_at": state.polled_at,
            "is_store_reachable": not problem,
        }
        return 200 if status == "ok" else 503, b"application/json", json.dumps(body)

    async def _metrics(self) -> str:
        entries, suspects, problem = await self._count_entries()
        state = self._statistics()
        queue = {"queue": self._queue}
        lines = [
            *_metric("nighthawk_worker_claimed_total", "counter", "Claimed entries.", {(): state.claimed}),
            *_metric("nighthawk_worker_running", "gauge", "Runs in progress.", {(): state.running}),
            *_metric(
                "nighthawk_worker_lives_total",
                "counter",
                "Lives of runs that ended, by the way in which they did.",
                {
                    (("end", end),): getattr(state, end)
                    for end in ("ended", "failed", "parked", "returned", "lost")
                },
            ),
            *_metric(
                "nighthawk_worker_store_reachable",
                "gauge",
                "Whether the store can be used.",
                {(): int(not problem and state.is_store_reachable)},
            ),
            *_metric(
                "nighthawk_worker_polled_timestamp_seconds",
                "gauge",
                "The time of the last look into the queue.",
                {(): state.polled_at or 0},
            ),
            *_metric(
                "nighthawk_queue_entries",
                "gauge",
                "Entries of the queue that have not ended, by status.",
                {(("status", status),): number for status, number in (entries or {}).items()},
            ),
            *_metric(
                "nighthawk_queue_suspects",
                "gauge",
                "Entries that run alone, because they may have ended their workers.",
                {} if suspects is None else {(): suspects},
            ),
        ]
        lines += await self._budget_metrics()
        labelled = [_with_labels(line, queue) for line in lines]
        return "".join(f"{line}\n" for line in labelled)

    async def _budget_metrics(self) -> "list[str | tuple[str, _Labels, float]]":
        """The metrics of the budgets of the store; none where there are none, or it does not answer."""
        try:
            with anyio.fail_after(_STORE_SECONDS):
                rows = await self._store.read_budgets()
        except (JournalStoreError, TimeoutError):
            return []
        lines: list[str | tuple[str, _Labels, float]] = []
        for name, text in (
            ("limit", "The limit"),
            ("spent", "The amount spent"),
            ("remaining", "What is left"),
        ):
            values: dict[_Labels, float] = {}
            for row in rows:
                for each in row.windows:
                    window = each.window.partition(" until ")[0]
                    labels = ("budget", row.name), ("resource", each.resource), ("window", window)
                    values[labels] = float(getattr(each, name))
            if values:
                help_text = f"{text} in the present window of a shared budget."
                lines += _metric(f"nighthawk_budget_{name}", "gauge", help_text, values)
        return lines

    async def _count_entries(self) -> tuple[Mapping[str, int] | None, int | None, str]:
        """The numbers of entries by status, and of suspects; None and the reason if there is no answer."""

        def count(database: Database) -> tuple[Mapping[str, int], int]:
            return (
                queue_table.count_entries(database, self._queue),
                queue_suspects.count_suspects(database, self._queue),
            )

        try:
            with anyio.fail_after(_STORE_SECONDS):
                return *await self._store.queues.read(count), ""
        except (JournalStoreError, TimeoutError) as error:
            return None, None, str(error) or "it does not answer"


_Labels = tuple[tuple[str, str], ...]


def _metric(
    name: str, kind: str, text: str, values: Mapping[_Labels, float]
) -> list[str | tuple[str, _Labels, float]]:
    """The lines of a metric: two of comments, and its values with their labels."""
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *((name, *item) for item in values.items())]


def _with_labels(line: str | tuple[str, _Labels, float], common: Mapping[str, str]) -> str:
    if isinstance(line, str):
        return line
    name, labels, value = line
    shown = ",".join(f"{key}={_quoted(text)}" for key, text in (*common.items(), *labels))
    return f"{name}{{{shown}}} {value}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


async def _answer(send: Callable[[Any], Awaitable[None]], status: int, kind: bytes, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
