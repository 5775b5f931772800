"""The goals of the project, as data: which figure may be at most what, and what fails a run."""

from collections.abc import Iterator

from .goals import Check, Goal, Limit, Line

__all__ = ["GOALS"]

BACKENDS = ("trio", "asyncio")


def _subject(trips: str, backend: str) -> str:
    """This project as a subject."""
    return f"nighthawk-async-{trips}-{backend}"


FLOOR = Line(metric="cpu", workload="sequential", subject="httpx-loop")
BARE_SDK = Line(metric="cpu", workload="sequential", subject="openai-sdk")


def _sequential(trips: str, *limits: Limit) -> Iterator[Check]:
    for backend in BACKENDS:
        line = Line(metric="cpu", workload="sequential", subject=_subject(trips, backend))
        yield from (Check(line=line, limit=limit, name=backend) for limit in limits)


def _burst(concurrency: int, trips: str, metric: str, limit: Limit) -> Iterator[Check]:
    for backend in BACKENDS:
        line = Line(
            metric=metric, workload="burst", subject=_subject(trips, backend), concurrency=concurrency
        )
        yield Check(line=line, limit=limit, name=f"{trips.replace('-', ' ')}, {backend}")


def _parallel_tools() -> Iterator[Check]:
    for backend in BACKENDS:
        subject = _subject("two-trips", backend)
        one = Line(metric="wall", workload="one-tool", subject=subject)
        eight = Line(metric="wall", workload="eight-tools", subject=subject)
        yield Check(line=eight, limit=Limit(factor=1.1, of=one, words="1.1 times one call"), name=backend)


def _tool_start() -> Iterator[Check]:
    for backend in BACKENDS:
        line = Line(metric="tool_start", workload="tool-start", subject=_subject("two-trips", backend))
        yield Check(line=line, limit=Limit(amount=5e-3, words="5 ms"), name=backend)


def _ready() -> Iterator[Check]:
    for backend in BACKENDS:
        for scheme in ("http", "https"):
            line = Line(metric="ready", benchmark=f"ready-{scheme}-{backend}")
            yield Check(line=line, limit=Limit(amount=0.25, words="250 ms"), name=f"{scheme}, {backend}")


def _in_scripts() -> Iterator[Check]:
    for backend in BACKENDS:
        beside = Line(metric="wall", benchmark=f"step-async-one-{backend}")
        line = Line(metric="wall", benchmark=f"step-script-one-{backend}")
        yield Check(
            line=line, limit=Limit(amount=1e-3, of=beside, words="the async step + 1 ms"), name=backend
        )
    failed = Line(metric="errors", benchmark="sync-script-nighthawk-async-sync")
    yield Check(line=failed, limit=NO_ERROR, name="errors")


def _ratio(benchmark: str, metric: str, goal: float, name: str, **bounds: float) -> Iterator[Check]:
    """A speed ratio, with a bound for each event loop."""
    for backend, bound in bounds.items():
        yield Check(
            line=Line(metric=metric, benchmark=f"ratio-{benchmark}-{backend}"),
            limit=Limit(amount=goal, words=f"{goal:g} times"),
            name=f"{name}, {backend}",
            bound=bound,
        )


def _ratios() -> Iterator[Goal]:
    floor = "as a multiple of the streamed floor of single connections"
    yield Goal(
        title=f"Sequential step, processor time, {floor}",
        checks=(
            *_ratio("sequential", "two_trips_cpu_ratio", 1.25, "two trips", trio=2.0, asyncio=2.0),
            *_ratio("sequential", "one_trip_cpu_ratio", 1.0, "one trip", trio=1.35, asyncio=1.35),
        ),
    )
    yield Goal(
        title=f"Burst of 1,000, time, {floor}",
        checks=(
            *_ratio("burst-1000", "two_trips_wall_ratio", 1.2, "two trips", trio=1.8, asyncio=1.8),
            *_ratio("burst-1000", "one_trip_wall_ratio", 0.65, "one trip", trio=1.3, asyncio=1.3),
        ),
    )
    yield Goal(
        title=f"Burst of 1,000, processor time, {floor}",
        checks=(
            *_ratio("burst-1000", "two_trips_cpu_ratio", 1.2, "two trips", trio=1.9, asyncio=1.9),
            *_ratio("burst-1000", "one_trip_cpu_ratio", 0.65, "one trip", trio=1.4, asyncio=1.4),
        ),
    )
    yield Goal(
        title="Ready for the first request, as a multiple of the openai SDK's time",
        checks=tuple(_ratio("ready", "wall_ratio", 0.4, "http", trio=0.85, asyncio=0.7)),
    )
    yield Goal(
        title="10,000 steps in flight, as a multiple of ten bursts of 1,000",
        checks=(
            *_ratio("burst-10000", "wall_ratio", 1.3, "time", trio=2.0, asyncio=2.0),
            *_ratio("burst-10000", "cpu_ratio", 1.3, "processor time", trio=2.0, asyncio=2.0),
        ),
    )


def _journal() -> Iterator[Goal]:
    added = Limit(amount=1e-3, words="1 ms")
    size = Limit(amount=1_200, words="1.2 KB")
    twice = Limit(amount=2.0, words="2 times")
    steps = {backend: f"journal-step-two-{backend}" for backend in BACKENDS}
    yield Goal(
        title="Journal: processor time that it adds to a step with three records",
        checks=tuple(
            Check(line=Line(metric="journal_cpu", benchmark=name), limit=added, name=backend)
            for backend, name in steps.items()
        ),
    )
    yield Goal(
        title="Journal: size of a step with three records",
        checks=(Check(line=Line(metric="file_bytes", benchmark=steps["trio"]), limit=size, name="file"),),
    )
    yield Goal(
        title="Journal: burst of 1,000 as a multiple of the burst without one",
        checks=tuple(
            Check(
                line=Line(metric=f"{metric}_ratio", benchmark=f"journal-burst-1000-{backend}"),
                limit=twice,
                name=f"{words}, {backend}",
            )
            for metric, words in (("wall", "time"), ("cpu", "processor time"))
            for backend in BACKENDS
        ),
    )
    yield Goal(
        title="Journal: resume of 10,000 recorded steps, processor time",
        checks=(
            Check(
                line=Line(metric="resume_cpu", benchmark="journal-resume-10000"),
                limit=Limit(amount=10.0, words="10 s"),
                name="trio",
            ),
        ),
    )


NO_ERROR = Limit(words="none")
MEMORY = Limit(amount=60e3, words="60 KB")

GOALS: tuple[Goal, ...] = (
    *_ratios(),
    Goal(
        title="Sequential step in two round trips, processor time",
        checks=tuple(
            _sequential(
                "two-trips",
                Limit(amount=2.2e-3, words="2.2 ms"),
                Limit(factor=1.3, of=FLOOR, words="1.3 times the bare httpx loop"),
                Limit(of=BARE_SDK, words="the bare openai SDK"),
            )
        ),
    ),
    Goal(
        title="The same work in one round trip, processor time",
        checks=tuple(_sequential("one-trip", Limit(amount=1.2e-3, words="1.2 ms"))),
    ),
    Goal(
        title="1,000 concurrent steps, 200 ms to first byte",
        checks=(
            *_burst(1_000, "two-trips", "burst_wall", Limit(amount=2.0, words="2 s")),
            *_burst(1_000, "one-trip", "burst_wall", Limit(amount=1.0, words="1 s")),
        ),
    ),
    Goal(
        title="10,000 concurrent steps: errors",
        checks=tuple(_burst(10_000, "two-trips", "errors", NO_ERROR)),
    ),
    Goal(
        title="10,000 concurrent steps: time",
        checks=tuple(_burst(10_000, "two-trips", "burst_wall", Limit(amount=20.0, words="20 s"))),
    ),
    Goal(
        title="10,000 concurrent steps: memory of each",
        checks=tuple(_burst(10_000, "two-trips", "memory_per_step", MEMORY)),
    ),
    Goal(
        title="1,000 concurrent steps: memory of each",
        checks=tuple(_burst(1_000, "two-trips", "memory_per_step", MEMORY)),
    ),
    Goal(
        title="Import above bare Python",
        checks=(
            Check(
                line=Line(metric="wall", benchmark="import"),
                limit=Limit(amount=0.15, words="150 ms"),
                name="import",
            ),
        ),
    ),
    Goal(title="Ready for the first request", checks=tuple(_ready())),
    Goal(title="Eight parallel tool calls of 100 ms", checks=tuple(_parallel_tools())),
    Goal(title="Tool start after its arguments are complete", checks=tuple(_tool_start())),
    Goal(title="Synchronous natural functions in a script, warm", checks=tuple(_in_scripts())),
    Goal(
        title="Decoration of a function",
        checks=(
            Check(
                line=Line(metric="wall", benchmark="decorate-small"),
                limit=Limit(amount=1e-3, words="1 ms"),
                name="decorate-small",
            ),
        ),
    ),
    *_journal(),
)
