"""Steps that are steered, suspended and ended under random schedules: no message is lost or told twice.

Time is counted in checkpoints, so that every schedule can happen on both event loops.
"""

import warnings
from collections.abc import Awaitable
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.kernel.run_state import StepAdmission
from nighthawk_async.parallel import NothingToControlError
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

WAITS = st.integers(0, 8)
SHORT = st.integers(0, 2)
ACTS = st.sampled_from(("steer", "steer", "suspend", "resume", "resume with input", "snapshot"))
ENDS = st.sampled_from(("go on", "go on", "cancel", "cancel gracefully", "stop"))


@nh.natural_function
async def work(dawdle: object) -> None:
    """natural
    Call <dawdle> some times.
    """


@dataclass(slots=True, kw_only=True)
class Record:
    """What the step accepted and what became of it."""

    accepted: list[str] = field(default_factory=list)
    undelivered: str = ""
    ended_with: BaseException | None = None
    answers: int = 0
    has_refused: bool = False


@given(
    turns=st.lists(WAITS, min_size=1, max_size=4),
    acts=st.lists(st.tuples(WAITS, ACTS), max_size=10),
    end=ENDS,
    occupied=st.none() | st.integers(0, 30),
)
async def test_messages_reach_the_model_once_and_in_order_or_are_reported(
    turns: list[int], acts: list[tuple[int, str]], end: str, occupied: int | None
) -> None:
    """`occupied`: for how long another step has the only place of the run; None for not at all."""
    model, record = _model_of(turns), Record()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        executor = nh.AgentStepExecutor.from_model(model=model)
        async with nh.run(executor, max_concurrent_steps=1), nh.open_tasks() as tasks:
            if occupied is not None:
                await _occupy(tasks, occupied)
            handle = tasks.start(work, checkpoint)
            await _play(handle, acts, record)
            await _finish(handle, end, record)
            with anyio.fail_after(240), nh.scope(step_executor=_busy(0)):
                await work(checkpoint)  # the place is free
    delivered = _delivered(model)
    assert delivered == record.accepted[: len(delivered)]
    reported = " ".join(str(warning.message) for warning in caught)
    left = record.accepted[len(delivered) :]
    if record.ended_with is None:
        assert all(repr(message) in reported for message in left)
        assert not any(repr(message) in reported for message in delivered)
    else:
        assert end != "go on"
        assert not caught


def _busy(checkpoints: int) -> CallbackExecutor:
    async def answer(call: StepCall) -> StepResponse:
        for _ in range(checkpoints):
            await checkpoint()
        return pass_response()

    return CallbackExecutor(answer)


async def _occupy(tasks: nh.parallel.Tasks, checkpoints: int) -> None:
    executor = _busy(checkpoints)
    with nh.scope(step_executor=executor):
        tasks.start(work, checkpoint)
    while not executor.calls:
        await checkpoint()


def _model_of(turns: list[int]) -> ScriptedModel:
    """A model that dawdles once per turn, then ends the block, and ends it again when it is held back."""

    def answer(request: nh.models.ModelRequest) -> ModelResponse:
        position = len(model.requests) - 1
        dawdling = turns[min(position, len(turns) - 1)]
        statements = "\n".join(["await dawdle()"] * dawdling) or "pass"
        calls = [tool_call("nh_exec", statements=statements)]
        if position >= len(turns) - 1:
            calls.append(tool_call("nh_outcome", kind="pass"))
        return model_response(*calls)

    model = ScriptedModel(answer)
    return model


async def _play(handle: nh.parallel.TaskHandle[None], acts: list[tuple[int, str]], record: Record) -> None:
    for number, (wait, act) in enumerate(acts):
        for _ in range(wait):
            await checkpoint()
        message = f"message {number}"
        try:
            answer = _act(handle, act, message)
            if isinstance(answer, Awaitable):
                await answer
        except (NothingToControlError, nh.parallel.NotSuspendedError, nh.parallel.TaskEndedError):
            continue
        if act in ("steer", "resume with input"):
            record.accepted.append(message)


def _act(handle: nh.parallel.TaskHandle[None], act: str, message: str) -> object:
    match act:
        case "steer":
            return handle.steer(message)
        case "suspend":
            return handle.suspend()
        case "resume":
            return handle.resume()
        case "resume with input":
            return handle.resume(message)
        case _:
            return handle.snapshot()


async def _finish(handle: nh.parallel.TaskHandle[None], end: str, record: Record) -> None:
    """End the step in some way; whatever it is, a step that is left suspended does not hang."""
    try:
        if end == "stop":
            handle.stop("enough")
        elif end == "go on":
            handle.resume()
    except (NothingToControlError, nh.parallel.NotSuspendedError, nh.parallel.TaskEndedError):
        pass
    if end == "cancel":
        handle.cancel()
    elif end == "cancel gracefully":
        await handle.cancel_gracefully(60)
    try:
        with anyio.fail_after(240):
            await handle
    except (nh.parallel.TaskCancelledError, nh.ExecutionError) as error:
        record.ended_with = error


def _delivered(model: ScriptedModel) -> list[str]:
    if not model.requests:
        return []
    messages = [
        message for message in model.requests[-1].messages[1:] if isinstance(message, nh.models.UserMessage)
    ]
    return [str(item) for message in messages for item in message.content]


@given(
    limit=st.integers(1, 2),
    steps=st.lists(st.tuples(SHORT, SHORT, st.none() | st.integers(1, 6)), min_size=3, max_size=12),
)
async def test_no_place_is_lost_or_doubled_whenever_steps_are_cancelled(
    limit: int, steps: list[tuple[int, int, int | None]]
) -> None:
    admission = StepAdmission(limit)
    in_flight: set[int] = set()

    async def step(number: int, begins: int, lasts: int) -> None:
        for _ in range(begins):
            await checkpoint()
        place = await admission.enter()
        in_flight.add(number)
        try:
            assert len(in_flight) <= limit
            for _ in range(lasts):
                await checkpoint()
        finally:
            in_flight.remove(number)
            admission.leave(place)

    async def cancel(handle: nh.parallel.TaskHandle[None], after: int) -> None:
        for _ in range(after):
            await checkpoint()
        handle.cancel()

    with anyio.fail_after(240):
        async with nh.open_tasks() as tasks, anyio.create_task_group() as cancelling:
            for number, (begins, lasts, cancelled) in enumerate(steps):
                handle = tasks.start(step, number, begins, lasts)
                if cancelled is not None:
                    cancelling.start_soon(cancel, handle, cancelled)
        async with anyio.create_task_group() as all_at_once:
            for number in range(limit):
                all_at_once.start_soon(step, number, 0, 1)
