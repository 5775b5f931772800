"""A program whose functions fail in natural functions; it prints their tracebacks as JSON, by function."""

import json
import logging
import sys
import traceback
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, cast

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    raise_response,
    return_response,
    tool_call,
)

SHOUT = raise_response("too big", "ValueError")
WRONG = model_response(tool_call("nh_assign", target_path="result", expression="'many'"))


def wrong_model() -> ScriptedModel:
    """A model whose every answer is refused."""
    return ScriptedModel(lambda request: WRONG)


@nh.natural_function
async def count(text: str) -> int:
    result: int = nh.unset
    """natural
    Set <:result> for <text>, or raise <ValueError>.
    """
    return result


@nh.natural_function
async def outer(text: str) -> int:
    result: int = nh.unset
    """natural
    Set <:result> for the outer <text>.
    """
    return result


@nh.natural_function
def checked(text: str) -> int:  # type: ignore[empty-body]
    """natural
    Return the number of <text>.
    """


@nh.natural_function
async def words(text: str) -> AsyncIterator[int]:
    result: int = nh.unset
    """natural
    Set <:result> from <text>.
    """
    yield result


async def helper(text: str) -> int:
    return await count(text)


async def block_raises() -> None:
    async with nh.run(ScriptedExecutor([SHOUT])):
        await helper("a")


async def library_raises() -> None:
    async with nh.run(wrong_model()):
        await helper("a")


async def is_watched() -> None:
    with nh.observe.recording():
        async with nh.run(wrong_model()):
            await helper("a")


async def answer(call: StepCall) -> StepResponse:
    if "outer" not in call.natural_program:
        raise LookupError("in the executor")
    return StepResponse(bindings={"result": await helper("a")})


async def executor_raises() -> None:
    async with nh.run(CallbackExecutor(answer)):
        await outer("a")


async def mapped() -> None:
    async with nh.run(ScriptedExecutor([SHOUT])):
        await nh.parallel.map(helper, ["a"])


async def started_in_run() -> None:
    async with nh.run(ScriptedExecutor([SHOUT])) as run:
        run.task_group.start_soon(helper, "a")


async def step_fails() -> None:
    async with nh.run(wrong_model()):
        await nh.step("Set <:result>.", outputs={"result": int})


async def step_raises() -> None:
    async with nh.run(ScriptedExecutor([SHOUT])):
        await nh.step("Raise <ValueError>.", ValueError=ValueError)


async def generates() -> None:
    async with nh.run(wrong_model()):
        async for _ in words("a"):
            pass


async def in_scope() -> None:
    async with nh.run(wrong_model()), nh.scope(max_depth=2):
        await nh.budget(seconds=60)(helper)("a")


def call_step() -> None:
    nh.step_sync("Set <:result>.", outputs={"result": int})


async def synchronous_step() -> None:
    async with nh.run(wrong_model()):
        await nh.parallel.map(call_step_with, ["a"])


def call_step_with(text: str) -> None:
    call_step()


def synchronous() -> None:
    with nh.run(ScriptedExecutor([return_response("'x'")])):
        checked("a")


async def enters_twice() -> None:
    run = nh.run(wrong_model())
    async with run, run:
        pass


async def failure_of_map() -> Exception:
    """An error with frames of `map`, which it keeps until it leaves the run."""
    try:
        await nh.parallel.map(helper, ["a"])
    except nh.ExecutionError as error:
        error.add_note("a note of the program")
        return error
    raise AssertionError("not reached")


async def grouped() -> None:
    async with nh.run(wrong_model()):
        raise ExceptionGroup("two", [await failure_of_map(), await failure_of_map()])


async def has_a_cause() -> None:
    async with nh.run(wrong_model()):
        raise await failure_of_map() from await failure_of_map()


async def find_changes() -> list[str]:
    """Return the ways in which the traceback that an executor keeps differs after the error has left."""
    held: list[TracebackType] = []
    before: list[TracebackType] = []

    async def answer_and_hold(call: StepCall) -> StepResponse:
        if "outer" not in call.natural_program:
            raise LookupError("in the executor")
        try:
            await nh.parallel.map(helper, ["a"])
        except LookupError as error:
            held.append(cast("TracebackType", error.__traceback__))
            before.extend(entries(held[0]))
            raise
        raise AssertionError("not reached")

    changes = ["no error has left"]
    try:
        async with nh.run(CallbackExecutor(answer_and_hold)):
            await outer("a")
    except LookupError as error:
        is_folded = not set(before) <= set(entries(error.__traceback__))
        changes = [] if is_folded else ["its own traceback is not folded"]
    if entries(held[0]) != before:
        changes.append("it has other entries")
    return changes


def entries(traceback: TracebackType | None) -> list[TracebackType]:
    found: list[TracebackType] = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


CASES: tuple[Any, ...] = (
    block_raises,
    library_raises,
    is_watched,
    executor_raises,
    mapped,
    started_in_run,
    step_fails,
    step_raises,
    generates,
    in_scope,
    synchronous_step,
    grouped,
    has_a_cause,
    enters_twice,
)


def main(backend: str) -> None:
    shown: dict[str, str] = {}
    for case in CASES:
        try:
            anyio.run(case, backend=backend)
        except BaseException:
            shown[case.__name__] = traceback.format_exc()
    try:
        synchronous()
    except nh.ExecutionError:
        shown["synchronous"] = traceback.format_exc()
    shown["changes"] = "\n".join(anyio.run(find_changes, backend=backend))
    print(json.dumps(shown))


if __name__ == "__main__":
    if "--debug" in sys.argv:
        logging.getLogger("nighthawk").setLevel(logging.DEBUG)
    main(sys.argv[1])
