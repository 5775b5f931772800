"""Workers on a cluster of Ray, beside what the tests of all placements say."""

import os
import signal
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import CrossingError, RayWorkers, WorkerLostError, WorkerStartError
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from tests.durable_worker_functions import NotingModel, effects_in, handle
from tests.unit.journal.durable_runs import query
from tests.unit.journal.postgresql_server import PostgresqlServer
from tests.worker_functions import (
    block_for_ever,
    die,
    die_once,
    double,
    length_of,
    process_of,
    sentiment_of,
    text_of,
    variable_of,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.may_leave_behind("Ray keeps connections with actors that have ended until it is shut down"),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed; the nox session `ray` has it"),
]


@pytest.fixture(scope="module")
async def workers(anyio_backend: object, ray_address: str) -> AsyncGenerator[RayWorkers, None]:
    async with RayWorkers(2, num_cpus=0, grace_seconds=0.1) as workers:
        yield workers


async def test_the_call_of_a_lost_worker_is_placed_again(workers: RayWorkers, tmp_path: Path) -> None:
    assert await parallel.map(die_once, [str(tmp_path)], on=workers)
    assert (tmp_path / "died").exists()


async def test_the_end_of_a_worker_is_told(workers: RayWorkers) -> None:
    with pytest.raises(
        WorkerLostError, match=r"its worker process has died: .*; the call was placed 3 times"
    ):
        await parallel.map(die, [0], on=workers)
    assert await parallel.map(double, [1], on=workers) == [2]


async def test_a_worker_that_is_killed_from_outside_is_replaced(workers: RayWorkers) -> None:
    (process,) = await parallel.map(process_of, [0], on=workers)
    os.kill(process, signal.SIGKILL)
    assert await parallel.map(double, range(50), on=workers) == [2 * each for each in range(50)]


async def test_a_call_that_ignores_its_cancellation_is_ended(workers: RayWorkers, tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(parallel.call_placed, workers, block_for_ever, str(tmp_path))
        with anyio.fail_after(240):
            while not await anyio.Path(tmp_path / "begun").exists():  # noqa: ASYNC110
                await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    assert await parallel.map(double, [1], on=workers) == [2]


async def test_a_large_argument_is_put_into_the_store_once(
    workers: RayWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    put, sizes = ray.put, list[int]()

    def counting_put(value: bytes) -> object:
        sizes.append(len(value))
        return put(value)

    monkeypatch.setattr(ray, "put", counting_put)
    text = f"{anyio.current_time()}" + "x" * 1_000_000
    assert set(await parallel.map(length_of, [text] * 20, on=workers)) == {len(text)}
    assert len(sizes) == 1


async def test_a_large_result_comes_back(workers: RayWorkers) -> None:
    texts = await parallel.map(text_of, [3_000_000, 3], on=workers)
    assert list(map(len, texts)) == [3_000_000, 3]


async def test_a_key_does_not_travel(workers: RayWorkers) -> None:
    settings = {"api_key": "sk-1"}
    configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
    async with nh.run(nh.AgentStepExecutor.from_configuration(configuration=configuration)):
        with pytest.raises(CrossingError, match="set the environment variable OPENAI_API_KEY on the workers"):
            await parallel.map(double, [1], on=workers)


async def test_natural_functions_run_with_the_keys_of_the_workers(
    ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the program's")
    environment = {"env_vars": {"OPENAI_API_KEY": "the worker's"}}
    calls = (
        tool_call("nh_assign", target_path="result", expression="'positive'"),
        tool_call("nh_outcome", kind="pass"),
    )
    with ModelServer.in_thread(lambda _: ModelReply(tool_calls=calls)) as server:
        settings = {"base_url": server.base_url}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
        async with nh.run(executor), RayWorkers(1, num_cpus=0, runtime_env=environment) as workers:
            assert await parallel.map(sentiment_of, ["Nice", "Good"], on=workers) == ["positive"] * 2
            assert await parallel.map(variable_of, ["OPENAI_API_KEY"], on=workers) == ["the worker's"]
        keys = {request.headers["authorization"] for request in server.requests}
    assert keys == {"Bearer the worker's"}


async def test_what_ray_waits_for_is_named(ray_address: str) -> None:
    with pytest.raises(
        WorkerStartError, match=r"each worker needs 5 CPU, 1 tpu, .* has 2 of 2 CPU, 0 of 0 tpu"
    ):
        async with RayWorkers(1, num_cpus=5, resources={"tpu": 1}, start_timeout=0.3):
            pass


async def test_addresses_of_ray_client_are_refused() -> None:
    with pytest.raises(WorkerStartError, match="run the program on a machine of the cluster"):
        async with RayWorkers(1, address="ray://127.0.0.1:10001"):
            pass


async def test_a_program_has_one_cluster(ray_address: str) -> None:
    with pytest.raises(WorkerStartError, match=f"connected with the Ray cluster '{ray_address}'"):
        async with RayWorkers(1, address="127.0.0.2:6379"):
            pass
    async with RayWorkers(1, num_cpus=0, address=ray_address) as workers:
        assert await parallel.map(double, [1], on=workers) == [2]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"count": 0}, "count"),
        ({"num_cpus": -1}, "num_cpus"),
        ({"resources": {"tpu": "1"}}, "resources"),
        ({"resources": {"CPU": 1}}, "num_cpus"),
        ({"options": {"max_restarts": 3}}, "max_restarts"),
        ({"backend": "curio"}, "backend"),
    ],
    ids=["count", "cpus", "resources", "cpu", "options", "backend"],
)
def test_arguments_are_checked(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        RayWorkers(**{"count": 1, **arguments})  # type: ignore[arg-type]


async def test_options_of_ray_are_checked_by_ray(ray_address: str) -> None:
    with pytest.raises(WorkerStartError, match="no_such_option"):
        async with RayWorkers(1, options={"no_such_option": 1}):
            pass


async def test_a_worker_appends_to_the_store_of_its_environment_itself(
    ray_address: str, postgresql: PostgresqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgresql.address_of(tmp_path)
    executor = nh.AgentStepExecutor.from_model(NotingModel(str(tmp_path)))
    environment = {"env_vars": {"NIGHTHAWK_JOURNAL": url}}
    with nh.journal.open(url) as store:
        async with (
            RayWorkers(2, num_cpus=0, address=ray_address, runtime_env=environment) as workers,
            nh.run(executor, journal=store, run_id="run-1"),
        ):
            jobs = [(str(tmp_path), each) for each in "abcd"]
            result = await parallel.map(handle, jobs, on=workers)
            assert len(query(store, "SELECT writer FROM run_writers")) == 2
        assert "the program does it" not in caplog.text
        effects = effects_in(tmp_path)
        async with nh.run(executor, journal=store, run_id="run-1"):
            assert await parallel.map(handle, jobs) == result
        assert effects_in(tmp_path) == effects
