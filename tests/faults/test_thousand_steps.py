"""A thousand steps at once against a real server on loopback, finished and cancelled in the middle."""

import resource
from collections.abc import Iterator

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call

pytestmark = pytest.mark.anyio

ONE_ROUND_TRIP = ModelReply(
    tool_calls=(
        tool_call("nh_assign", target_path="result", expression="len(text)"),
        tool_call("nh_outcome", kind="pass"),
    )
)


@pytest.fixture
def steps(all_cases: bool) -> Iterator[int]:
    """The number of steps: a thousand weekly, a fifth of them with every change.

    Both ends of every connection are in this process; a shell's usual soft limit is below that.
    """
    number = 1000 if all_cases else 200
    descriptors = 4 * number
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < descriptors:
        pytest.skip(f"the system allows {hard} open files, this test needs {descriptors}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, descriptors), hard))
    yield number
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@nh.natural_function
async def measure(text: str) -> int:
    """natural
    Set <:result> to the number of characters of <text>.
    """
    result: int
    return result


def executor_for(server: ModelServer) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:any", model_settings={"base_url": server.base_url}
    )
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


async def test_a_thousand_steps_in_one_task_group_all_commit_their_own_value(steps: int) -> None:
    results: dict[int, int] = {}

    async def step(length: int) -> None:
        results[length] = await measure("x" * length)

    async with ModelServer(lambda request: ONE_ROUND_TRIP) as server:
        async with nh.run(executor_for(server)) as run, anyio.create_task_group() as task_group:
            for length in range(steps):
                task_group.start_soon(step, length)
        assert results == {length: length for length in range(steps)}
        assert run.usage_meter.usage.requests == steps
        assert run.usage_meter.steps == steps
        await _closed_by_everyone(server)


async def test_cancelling_a_thousand_steps_in_the_middle_leaves_no_task_and_no_connection(
    steps: int,
) -> None:
    finished: list[int] = []
    half_answered = anyio.Event()
    all_asked = anyio.Event()
    tasks_before = len(anyio.get_running_tasks())

    async def reply(request: RecordedRequest) -> ModelReply:
        position = len(server.requests)
        if position == steps:
            all_asked.set()
        if steps // 2 < position <= steps:
            await anyio.sleep_forever()
        return ONE_ROUND_TRIP

    async def step(length: int) -> None:
        finished.append(await measure("x" * length))
        if len(finished) == steps // 2:
            half_answered.set()

    async with ModelServer(reply) as server:
        async with nh.run(executor_for(server)) as run:
            async with anyio.create_task_group() as task_group:
                for length in range(steps):
                    task_group.start_soon(step, length)
                await half_answered.wait()
                await all_asked.wait()
                task_group.cancel_scope.cancel()
            assert len(finished) == steps // 2
            usage = run.usage_meter.usage
            assert usage.requests == steps
            assert not usage.is_complete
            assert await measure("one more") == len("one more")
        await _closed_by_everyone(server)
    assert len(anyio.get_running_tasks()) == tasks_before


async def _closed_by_everyone(server: ModelServer) -> None:
    with anyio.fail_after(240):
        while server.connections.open:
            await anyio.wait_all_tasks_blocked()
