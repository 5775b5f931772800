"""What natural generator functions tell whoever watches, and that watching changes nothing about them."""

import contextlib
import gc
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, TypeAlias, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.observation import find_node_writer
from nighthawk_async.parallel import TaskCancelledError
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    return_response,
    tool_call,
)
from nighthawk_async.types.usage import Usage

from .told_nodes import ToldNode, root

pytestmark = pytest.mark.anyio

MODULE = __name__


def doubling(call: StepCall) -> StepResponse:
    """Every step doubles the number that it reads."""
    return pass_response(result=2 * cast("int", call.step_locals["number"]))


def executor() -> CallbackExecutor:
    """An executor whose steps double numbers."""
    return CallbackExecutor(doubling)


def active() -> ToldNode:
    """The node in force."""
    found = find_node_writer()
    assert isinstance(found, ToldNode)
    return found


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    return result  # pyright: ignore


@nh.natural_function
def double_sync(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    return result  # pyright: ignore


@nh.natural_function
async def doubles(limit: int) -> AsyncIterator[int]:
    for number in range(1, limit + 1):  # noqa: B007  (the block reads it)
        """natural
        Set <:result> to twice <number>.
        """
        yield result  # pyright: ignore


@nh.natural_function
def doubles_sync(limit: int) -> Generator[int, None, str]:
    for number in range(1, limit + 1):  # noqa: B007  (the block reads it)
        """natural
        Set <:result> to twice <number>.
        """
        yield result  # pyright: ignore
    return "done"


async def test_an_async_generator_is_a_node_with_its_steps_below_it() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            run = active()
            generator = doubles(2)
            assert watched.draw() == ["run run: running"]  # it has not begun yet
            values: list[int] = []
            async for value in generator:
                await anyio.lowlevel.checkpoint()
                assert active() is run
                assert watched.find("function").state == "running"
                values.append(value)
    assert values == [2, 4]
    assert watched.draw() == [
        "run run: completed",
        "  function doubles: completed",
        "    step: completed",
        "    step: completed",
    ]
    node = watched.find("function")
    assert node.states == ["running", "completed"]
    assert (node.inputs, node.outputs) == ({"limit": 2}, {})
    assert node.source is not None
    assert node.source.startswith(f"{MODULE}:")


def test_a_generator_of_a_script_tells_what_it_returns() -> None:
    watched = root()
    with watched.watching(), nh.run(executor()):
        generator = doubles_sync(1)
        assert next(generator) == 2
        assert active() is watched.find("run")
        with pytest.raises(StopIteration) as caught:
            next(generator)
        assert active() is watched.find("run")
    assert caught.value.value == "done"
    node = watched.find("function")
    assert [child.kind for child in node.children] == ["step"]
    assert (node.state, node.inputs, node.outputs) == ("completed", {"limit": 1}, {"return": "done"})


def test_the_outcome_return_of_a_block_is_told_too() -> None:
    @nh.natural_function
    def values() -> Generator[int, None, str]:
        yield 1
        """natural
        Return a word.
        """

    watched = root()
    with watched.watching(), nh.run(CallbackExecutor(lambda _: return_response("'word'"))):
        assert list(values()) == [1]
    assert watched.find("function").outputs == {"return": "word"}


async def test_what_the_python_code_of_a_generator_calls_is_below_what_iterates_over_it() -> None:
    @nh.natural_function
    async def outer(number: int) -> AsyncIterator[int]:
        """natural
        Set <:result> to twice <number>.
        """
        yield await double(result)  # pyright: ignore

    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            assert [value async for value in outer(3)] == [12]
    assert [line.rsplit(".")[-1].strip() for line in watched.draw()] == [
        "run run: completed",
        "outer: completed",
        "step: completed",
        "function double: completed",
        "step: completed",
    ]
    assert [node.kind for node in watched.find("run").children] == ["function", "function"]


async def test_what_a_block_of_a_generator_calls_is_below_its_step() -> None:
    @nh.natural_function
    async def outer(number: int) -> AsyncIterator[int]:
        """natural
        Set <:result> to <double>(<number>).
        """
        yield result  # pyright: ignore

    call = tool_call("nh_assign", target_path="result", expression="double(number)")
    inner = tool_call("nh_assign", target_path="result", expression="number * 2")
    ended = tool_call("nh_outcome", kind="pass")
    model = ScriptedModel([model_response(call, ended), model_response(inner, ended)])
    watched = root()
    with watched.watching():
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            assert [value async for value in outer(3)] == [6]
    (function,) = watched.find("run").children
    (step,) = function.children
    assert [node.name for node in step.walk() if node.kind == "function"] == ["double"]


async def test_generators_that_go_on_in_turns_keep_apart() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            first, second = doubles(2), doubles(2)
            order = [await anext(each) for each in (first, second, second, first)]
            await first.aclose()  # pyright: ignore
            await second.aclose()  # pyright: ignore
            assert active() is watched.find("run")
    assert order == [2, 2, 4, 4]
    nodes = watched.find("run").children
    assert [(node.name, [child.kind for child in node.children]) for node in nodes] == [
        ("doubles", ["step", "step"])
    ] * 2


@nh.natural_function
def walk(tree: tuple[Any, ...]) -> Generator[Any, Any, str]:
    """natural
    Do nothing.
    """
    for part in tree:
        if isinstance(part, tuple):
            yield from walk(part)
        else:
            yield part
    return f"{len(tree)} parts"


def test_each_generator_of_a_recursion_is_a_node() -> None:
    watched = root()
    with watched.watching(), nh.run(CallbackExecutor(lambda _: pass_response())):
        assert list(walk((1, (2, (3,)), 4))) == [1, 2, 3, 4]
        assert active() is watched.find("run")
    nodes = watched.find("run").children
    assert [(node.name, node.state, node.outputs["return"], len(node.children)) for node in nodes] == [
        ("walk", "completed", "3 parts", 1),
        ("walk", "completed", "2 parts", 1),
        ("walk", "completed", "1 parts", 1),
    ]


def test_leaving_a_delegating_generator_ends_what_it_delegates_to_as_well() -> None:
    watched = root()
    with watched.watching(), nh.run(CallbackExecutor(lambda _: pass_response())):
        generator = walk(((1,),))
        next(generator)
        generator.close()
        assert active() is watched.find("run")
    assert [node.state for node in watched.find("run").children] == ["completed", "completed"]


async def test_whoever_has_enough_values_has_not_failed_an_async_generator() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            async with contextlib.aclosing(cast("AsyncGenerator[int]", doubles(5))) as values:
                async for _ in values:
                    break
            assert watched.find("function").state == "completed"


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # Trio says that it should be closed
async def test_an_async_generator_that_nobody_holds_any_more_ends() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            async for _ in doubles(5):
                break
            gc.collect()
            await anyio.wait_all_tasks_blocked()
            assert watched.find("function").state == "completed"
            assert active() is watched.find("run")


def test_whoever_has_enough_values_has_not_failed_a_generator() -> None:
    watched = root()
    with watched.watching(), nh.run(executor()):
        for _ in doubles_sync(5):
            break
        gc.collect()  # not every Python ends what nobody holds any more at once
        assert watched.find("function").state == "completed"


async def test_an_error_of_a_generator_fails_it_and_leaves_nothing_in_force() -> None:
    @nh.natural_function
    async def broken() -> AsyncIterator[int]:
        yield 1
        """natural
        Fail.
        """

    def fail(_: StepCall) -> StepResponse:
        raise ZeroDivisionError

    watched = root()
    with watched.watching():
        async with nh.run(CallbackExecutor(fail)):
            with pytest.raises(ZeroDivisionError):
                [value async for value in broken()]
            assert active() is watched.find("run")
    assert [line.split(":")[-1] for line in watched.draw()] == [" completed", " failed", " failed"]
    assert isinstance(watched.find("function").error, ZeroDivisionError)


async def test_a_cancelled_generator_ends_cancelled() -> None:
    @nh.natural_function
    async def endless() -> AsyncIterator[int]:
        yield 1
        await anyio.sleep_forever()
        "natural\nDo nothing."

    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            with anyio.CancelScope() as scope:
                async for _ in endless():
                    scope.cancel()
            assert active() is watched.find("run")
    assert watched.find("function").state == "cancelled"


def test_a_generator_that_hears_that_its_task_was_cancelled_ends_cancelled() -> None:
    @nh.natural_function
    def stopped() -> Iterator[int]:
        yield 1
        "natural\nDo nothing."

    watched = root()
    with watched.watching():
        generator = cast("Generator[int]", stopped())
        next(generator)
        with pytest.raises(TaskCancelledError):
            generator.throw(TaskCancelledError(task_id="1", reason=None, forced=False))
    assert watched.find("function").state == "cancelled"


async def test_what_a_generator_enters_and_is_thrown_out_of_leaves_nothing_in_force() -> None:
    @nh.natural_function
    async def inside_a_run() -> AsyncGenerator[int, None]:
        """natural
        Do nothing.
        """
        async with nh.run(executor()):
            yield 1

    watched = root()
    with watched.watching():
        async with nh.run(CallbackExecutor(lambda _: pass_response())):
            run = active()
            for leave in ("aclose", "athrow"):
                generator = inside_a_run()
                await anext(generator)
                if leave == "aclose":
                    await generator.aclose()
                else:
                    with pytest.raises(KeyError):
                        await generator.athrow(KeyError())
                assert active() is run
    assert [node.state for node in run.children if node.kind == "function"] == ["completed", "failed"]


def test_a_block_where_something_thrown_into_it_is_handled_is_below_it() -> None:
    @nh.natural_function
    def patient(number: int) -> Generator[int, None, None]:
        try:
            yield 1
        except ValueError:
            """natural
            Set <:result> to twice <number>.
            """
            yield result  # pyright: ignore

    watched = root()
    with watched.watching(), nh.run(executor()):
        generator = patient(2)
        next(generator)
        assert generator.throw(ValueError()) == 4
        assert active() is watched.find("run")
        generator.close()
    (function,) = watched.find("run").children
    assert (function.state, [child.kind for child in function.children]) == ("completed", ["step"])


async def test_an_async_generator_as_a_context_manager_lets_the_body_be_below_its_caller() -> None:
    @contextlib.asynccontextmanager
    @nh.natural_function
    async def session(number: int) -> AsyncIterator[int]:
        try:
            yield number
        except ValueError:
            """natural
            Set <:result> to twice <number>.
            """

    watched = root()
    with watched.watching():
        async with nh.run(executor()), session(1) as value:
            assert await double(value) == 2
            raise ValueError
    assert [line.rsplit(".")[-1] for line in watched.draw()] == [
        "run run: completed",
        "session: completed",
        "    step: completed",
        "  function double: completed",
        "    step: completed",
    ]


async def test_it_may_go_on_in_another_task() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            generator = doubles(3)
            taken: list[int] = []

            async def take() -> None:
                before = active()
                taken.append(await anext(generator))
                assert active() is before

            for _ in range(3):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(take)
            with pytest.raises(StopAsyncIteration):
                await anext(generator)
    assert taken == [2, 4, 6]
    node = watched.find("run").children[0]
    assert (node.name, node.state) == ("doubles", "completed")
    assert [child.kind for child in node.children] == ["step"] * 3


async def test_a_generator_may_go_on_in_a_worker_thread() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(executor()):
            assert await anyio.to_thread.run_sync(list, doubles_sync(2)) == [2, 4]
    assert watched.draw() == [
        "run run: completed",
        "  function doubles_sync: completed",
        "    step: completed",
        "    step: completed",
    ]


async def test_one_that_began_before_anybody_watched_is_not_told() -> None:
    watched = root()
    async with nh.run(executor()):
        generator = doubles(2)
        assert await anext(generator) == 2
        with watched.watching():
            assert await anext(generator) == 4
            with pytest.raises(StopAsyncIteration):
                await anext(generator)
    assert [line.strip() for line in watched.draw()] == ["step: completed"]


async def test_the_tree_shows_a_generator_that_outlives_what_began_it() -> None:
    tree = observe.TaskTree()
    used = Usage(input_tokens=10, output_tokens=2)
    answer = model_response(tool_call("nh_outcome", kind="pass"), usage=used)

    @nh.natural_function
    async def numbers() -> AsyncGenerator[int, None]:
        """natural
        Do nothing.
        """
        yield 1
        yield 2

    @nh.natural_function
    async def begin() -> AsyncGenerator[int, None]:
        """natural
        Do nothing.
        """
        generator = numbers()
        await anext(generator)
        return generator

    with tree.recording():
        async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel([answer] * 2))):
            generator = await begin()
            (run,) = tree.snapshot().children
            (beginner,) = run.children
            function = beginner.children[1]
            assert (beginner.state, function.state) == ("completed", "running")
            assert await anext(generator) == 2
            await generator.aclose()
    (run,) = tree.snapshot().children
    function = run.children[0].children[1]
    assert (function.state, len(function.children)) == ("completed", 1)
    assert (function.subtree_usage, run.subtree_usage) == (used, used + used)


Parts: TypeAlias = Callable[[int, list[object], "Parts"], Generator[object, object, object]]

OPERATIONS = st.lists(st.sampled_from(["next", "send", "KeyError", "ValueError", "close"]), max_size=8)


def parts(depth: int, log: list[object], again: Parts) -> Generator[object, object, object]:
    """natural
    Nothing: the function yields in every way there is.
    """
    log.append((yield depth))
    try:
        log.append([(yield "a"), (yield), -(yield 1) if (yield "if") == "sent" else 0])  # pyright: ignore
        if depth:
            log.append((yield from again(depth - 1, log, again)))
            log.append((yield from [7, 8]))
    except KeyError as error:
        log.append(repr(error))
        yield f"caught {(yield 'inside')}"
    finally:
        log.append("finally")
    with contextlib.suppress(ValueError):
        log.append((lambda seen=(yield "default"): seen)())
        for each in (yield "items") or ():  # pyright: ignore
            log.append(each)
    while (yield "while") == "sent":
        log.append([[each] for each in [(yield "in a list")]])
    return len(log)


def trace(generator: Generator[object, object, object], operations: list[str]) -> list[str]:
    """What comes of the operations."""
    seen: list[str] = []
    around = find_node_writer()
    for operation in operations:
        try:
            match operation:
                case "next":
                    came = next(generator)
                case "send":
                    came = generator.send("sent")
                case "close":
                    came = cast("object", generator.close())
                case _:
                    came = generator.throw(KeyError("k") if operation == "KeyError" else ValueError("v"))
            seen.append(repr(came))
        except BaseException as error:
            seen.append(repr(error))
        assert find_node_writer() is around
        seen.append(inspect.getgeneratorstate(generator))
    return seen


natural_parts = nh.natural_function(parts)


@pytest.mark.parametrize("is_watched", [False, True])
@given(operations=OPERATIONS, depth=st.integers(0, 2))
def test_it_behaves_as_python_generators_do(is_watched: bool, operations: list[str], depth: int) -> None:
    expected_log: list[object] = []
    plain = parts(depth, expected_log, parts)
    expected = trace(plain, operations)
    watched = root()
    log: list[object] = []
    with contextlib.ExitStack() as stack:
        if is_watched:
            stack.enter_context(watched.watching())
        stack.enter_context(nh.run(CallbackExecutor(lambda _: pass_response())))
        generator = natural_parts(depth, log, natural_parts)
        seen = trace(generator, operations)
    assert (seen, log) == (expected, expected_log)
    if is_watched:
        states = {node.state for node in watched.walk() if node.kind == "function"}
        assert ("running" in states) == (inspect.getgeneratorstate(generator) == inspect.GEN_SUSPENDED)
