"""Budgets under random schedules: nothing is overspent, nothing stays reserved, nothing is charged twice.

Time is counted in checkpoints, so that every schedule can happen on both event loops.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.parallel import gather, race, settle
from nighthawk_async.testing import model_response, tool_call

pytestmark = pytest.mark.anyio

PRICE = nh.models.ModelPrice(input=Decimal(1), output=Decimal(4), cache_write=Decimal(2))
MOST_OUTPUT = 60
MOST_INPUT = 1_500  # fewer than any request of these tests is measured to have
TOKENS = st.sampled_from((50_000, 9_000, 4_500, 2_300, 2_000))  # a request is measured to have about 1,700
COUNTS = st.integers(0, 5)


class PlannedError(nh.ModelError):
    """What a request of a schedule raises."""


EXPECTED = (PlannedError, nh.BudgetExceededError, nh.errors.ModelStatusError, nh.errors.StepLimitError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one request goes: after how many checkpoints it begins, what it takes, and how it ends."""

    waits: int
    pauses: int
    input_tokens: int
    output_tokens: int
    ends: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One step, or two: when it begins, and after how many checkpoints and how it is cancelled."""

    begins: int
    patience: int
    cancelled: str
    inner_limit: int | None
    repeats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    answers: list[Answer]
    jobs: list[Job]
    tokens: int
    cost: int
    turns: int
    scope_tokens: int | None
    step_turns: int | None
    combinator: str
    on_exceeded: str


ANSWERS = st.builds(
    Answer,
    waits=COUNTS,
    pauses=COUNTS,
    input_tokens=st.sampled_from((0, 700, MOST_INPUT)),
    output_tokens=st.sampled_from((0, 7, MOST_OUTPUT)),
    ends=st.sampled_from(("well", "well", "refused", "broken", "untold", "never", "another turn")),
)
JOBS = st.builds(
    Job,
    begins=COUNTS,
    patience=st.integers(0, 30) | st.integers(20, 60),
    cancelled=st.sampled_from(("never", "never", "by scope", "natively")),
    inner_limit=st.none() | TOKENS,
    repeats=st.booleans(),
)
SCHEDULES = st.builds(
    Schedule,
    answers=st.lists(ANSWERS, min_size=1, max_size=6),
    jobs=st.lists(JOBS, min_size=1, max_size=5),
    tokens=TOKENS,
    cost=TOKENS.map(lambda tokens: 2 * tokens),
    turns=st.sampled_from((9, 4, 2, 1)),
    scope_tokens=st.none() | TOKENS,
    step_turns=st.none() | st.sampled_from((3, 1)),
    combinator=st.sampled_from(("group", "settle", "race", "gather", "tasks")),
    on_exceeded=st.sampled_from(("fail", "conclude")),
)


@dataclass(slots=True, kw_only=True)
class PlannedModel:
    """Answers as the schedule says, in turn; looks at the budgets whenever it is asked."""

    answers: list[Answer]
    budgets: list[nh.policies.Budget] = field(default_factory=list)
    name: str = "planned:model"
    asked: int = 0
    capabilities: nh.models.ModelCapabilities = field(
        default_factory=lambda: nh.models.ModelCapabilities(max_output_tokens=MOST_OUTPUT, price=PRICE)
    )

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        answer = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        await self.pass_time(answer.waits)
        if answer.ends == "refused":
            raise nh.errors.ModelStatusError("not now", status=429)
        yield self.events(answer)

    async def events(self, answer: Answer) -> AsyncGenerator[nh.models.ModelEvent, None]:
        yield nh.models.TextDelta(text="so far")
        await self.pass_time(answer.pauses)
        if answer.ends == "broken":
            raise PlannedError("broken")
        if answer.ends == "never":
            await self.pass_time(40)
            raise PlannedError("never")
        calls = [tool_call("nh_eval", expression="1")] if answer.ends == "another turn" else []
        usage = nh.Usage(requests=1, input_tokens=answer.input_tokens, output_tokens=answer.output_tokens)
        if not calls:
            calls = [tool_call("nh_outcome", kind="pass")]
        for event in model_response(*calls, usage=usage).events:
            if not (answer.ends == "untold" and isinstance(event, nh.models.UsageReported)):
                yield event

    async def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            await checkpoint()
            for budget in self.budgets:
                check_within_limits(budget)


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


def check_within_limits(budget: nh.policies.Budget) -> None:
    spent, reserved, limits = budget.spent, budget.reserved, budget.limits
    for resource in ("tokens", "cost", "steps", "turns", "tool_calls"):
        limit = getattr(limits, resource)
        if limit is not None:
            assert 0 <= getattr(spent, resource) + getattr(reserved, resource) <= limit


def check_expected(error: BaseException) -> None:
    """Fail when something else went wrong than what the schedule has planned."""
    leaves = [error]
    while leaves:
        each = leaves.pop()
        if isinstance(each, BaseExceptionGroup):
            leaves += each.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif not isinstance(each, EXPECTED):  # pyright: ignore[reportUnknownArgumentType]
            raise each


def is_on_asyncio() -> bool:
    """Whether tasks can be cancelled without a scope."""
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


async def carry_out(job: Job, inner: nh.policies.Budget | None) -> None:
    for _ in range(job.begins):
        await checkpoint()
    for _ in range(2 if job.repeats else 1):
        if inner is None:
            await act()
        else:
            async with inner:
                await act()


async def within_patience(job: Job, work: Callable[[], Awaitable[None]]) -> None:
    """Carry a job out, and cancel it when its patience is over."""
    if job.cancelled == "natively" and is_on_asyncio():
        task = asyncio.ensure_future(work())  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
        try:
            for _ in range(job.patience):
                await checkpoint()
        finally:
            task.cancel()
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen, also when late
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def lose_patience() -> None:
                for _ in range(job.patience):
                    await checkpoint()
                scope.cancel()

            if job.cancelled != "never":
                group.start_soon(lose_patience)
            await work()
            group.cancel_scope.cancel()


async def call(job: Callable[[], Awaitable[None]]) -> None:
    await job()


async def play(schedule: Schedule, jobs: list[Callable[[], Awaitable[None]]]) -> None:
    match schedule.combinator:
        case "group":
            async with anyio.create_task_group() as group:
                for job in jobs:
                    group.start_soon(job)
        case "settle":
            settled = await settle(call, jobs)
            for error in settled.errors():
                check_expected(error)
        case "race":
            await race(call, jobs)
        case "gather":
            await gather(*[job() for job in jobs])
        case _:
            async with nh.open_tasks() as tasks:
                for job in jobs:
                    tasks.start(call, job)


@given(schedule=SCHEDULES)
async def test_budgets_hold_under_every_schedule(schedule: Schedule) -> None:
    model = PlannedModel(answers=schedule.answers)
    executor = nh.AgentStepExecutor.from_model(model=model)
    total = nh.budget(
        tokens=schedule.tokens,
        cost=schedule.cost / 1_000_000,
        turns=schedule.turns,
        on_exceeded=schedule.on_exceeded,  # pyright: ignore[reportArgumentType]
    )
    middle = nh.budget(tokens=schedule.scope_tokens, steps=6)
    inners = [None if job.inner_limit is None else nh.budget(tokens=job.inner_limit) for job in schedule.jobs]
    each_step = None if schedule.step_turns is None else nh.budget(turns=schedule.step_turns)
    model.budgets = [total, middle, *(inner for inner in inners if inner is not None)]
    jobs = [
        partial(within_patience, job, partial(carry_out, job, inner))
        for job, inner in zip(schedule.jobs, inners, strict=True)
    ]
    async with nh.run(executor, budget=total) as run, nh.scope(budget=middle, step_budget=each_step):
        try:
            await play(schedule, jobs)
        except Exception as error:  # whatever the schedule made of its failures
            check_expected(error)
    for budget in model.budgets:
        check_within_limits(budget)
        assert budget.reserved == nh.policies.BudgetAmounts()
    used = run.usage_meter.usage
    assert total.spent.tokens == middle.spent.tokens == used.input_tokens + used.output_tokens
    assert total.usage == middle.usage == used
    assert total.spent.turns == used.requests <= model.asked
    assert total.spent.steps <= run.usage_meter.steps
