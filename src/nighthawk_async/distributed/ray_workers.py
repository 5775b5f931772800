"""`RayWorkers`: workers on a cluster of Ray as a placement."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, Self

import anyio

from ..former_names import takes_former
from ..threads import call_in_thread
from .errors import WorkerStartError
from .messages import Begin
from .ray_cluster import RayCluster, check_package, outcome_of
from .ray_library import ray
from .ray_link import RayLink, SharedMessages, kill_actor, reason_of, was_killed
from .ray_worker import RayWorker, library_version
from .workers import Workers

_OURS = (
    *("lifetime", "max_concurrency", "max_restarts", "max_task_retries", "name"),
    *("num_cpus", "num_gpus", "resources", "runtime_env"),
)
"""The options of actors that are set here."""

_MAX_CONCURRENCY = 8
"""The greatest number of methods of an actor at once: it takes and gives messages, and describes itself."""


class RayWorkers(Workers):
    """Workers on a cluster of Ray; a placement for `on=`. It needs the extra `ray`.

        async with nh.distributed.RayWorkers(16, address="auto") as workers:
            labels = await parallel.map(classify, texts, on=workers)

    Each worker is an actor of Ray, and makes calls of its own: functions that are imported by their names, in
    one run for the life of the actor. So this library and the modules of the functions must be importable on
    the machines of the cluster: as part of their image, or by `runtime_env`. What a call may spend, its
    questions to people and its place in the live tree stay in the program.

    Keys do not travel, also to a cluster on this machine. Workers read their own environment variables; a
    call in whose scope the program sets a key, such as `api_key`, is refused with a `CrossingError`.

    Leaving the block waits for the calls in progress, or cancels them if an exception leaves it; then the
    actors end, and with the last placement a cluster that was started here. A worker that is lost is
    replaced, and its calls are placed again; Ray's own restarts and retries are off.

    Args:
        count: The number of workers.
        address: The address of the cluster: `host:port`, if the program runs on one of its machines; `auto`
            for the one on this machine; `local` for a new one. None for the one that the program is connected
            with, or that of the environment variable `RAY_ADDRESS`, or a new one on this machine. Ray Client,
            `ray://host:port`, is refused.
        num_cpus: The number of processors that Ray reserves for each worker; 0 for none.
        num_gpus: The number of graphics processors that Ray reserves for each worker.
        resources: Further resources that Ray reserves for each worker, by name.
        runtime_env: The runtime environment of workers, as for `ray.init`: `working_dir`, `env_vars`, `pip`.
            A directory of this machine is accepted where the placement itself opens the connection.
        options: Further options of the actors, such as `scheduling_strategy`.
        max_concurrent_per_worker: The greatest number of calls on one worker at once. One is enough for
            functions that compute; those that wait for models need more.
        max_placements: The number of workers that a call may lose while it is alone there; then it raises
            `WorkerLostError`. With 1, a call is never placed again, whatever has ended its worker.
        grace_seconds: The seconds within which a cancelled call must end, before its worker is ended.
        start_timeout: The seconds within which a worker must be ready, which may include those in which the
            cluster grows.
        backend: The event loop on which workers make calls.

    Raises:
        ConfigurationError: Ray is not installed.
        ValueError: An argument is invalid.
    """

    @takes_former(calls_per_worker="max_concurrent_per_worker", start_seconds="start_timeout")
    def __init__(
        self,
        count: int,
        *,
        address: str | None = None,
        num_cpus: float = 1,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        max_concurrent_per_worker: int = 8,
        max_placements: int = 3,
        grace_seconds: float = 5.0,
        start_timeout: float = 180.0,
        backend: Literal["trio", "asyncio"] = "trio",
    ) -> None:
        check_package()
        if backend not in ("trio", "asyncio"):
            raise ValueError(f"backend must be 'trio' or 'asyncio', not {backend!r}")
        super().__init__(
            count,
            max_concurrent_per_worker=max_concurrent_per_worker,
            max_placements=max_placements,
            grace_seconds=grace_seconds,
            start_timeout=start_timeout,
            carries_keys=False,
        )
        self._needs = _checked_needs(num_cpus, num_gpus, resources or {})
        self._options = _checked_options(options or {})
        self._backend = backend
        self._cluster = RayCluster(address, runtime_env)
        self._shared = SharedMessages()

    async def __aenter__(self) -> Self:
        if self._cluster.is_connected:
            return await super().__aenter__()  # which refuses it
        await self._cluster.connect()
        self._shared = SharedMessages()
        try:
            return await super().__aenter__()
        except BaseException:
            await self._cluster.disconnect()
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return await super().__aexit__(exc_type, exc, traceback)
        finally:
            await self._cluster.disconnect()

    async def open_link(self, name: str, begin: Begin) -> RayLink:
        """Start an actor, and wait until it runs.

        Raises:
            WorkerStartError: Ray does not start it, or not in time.
        """
        actor: Any = None
        try:
            with anyio.CancelScope(shield=True):  # a cancellation while it starts would leave it behind
                actor = await self._make_actor(name)
            await self._wait_for_actor(name, actor)
        except BaseException:
            if actor is not None:
                with anyio.CancelScope(shield=True):
                    await call_in_thread(kill_actor, actor)
            raise
        return RayLink(actor, self._shared)

    async def _make_actor(self, name: str) -> Any:
        try:
            return await call_in_thread(self._make_actor_in_thread, name)
        except Exception as error:  # Ray raises many kinds, of the user's options too
            raise WorkerStartError(f"worker {name} did not start: {error}") from error

    def _make_actor_in_thread(self, name: str) -> Any:
        environment = self._cluster.worker_environment
        options = {
            **self._options,
            "num_cpus": self._needs["CPU"],
            "num_gpus": self._needs["GPU"],
            "resources": {name: value for name, value in self._needs.items() if name not in ("CPU", "GPU")},
            **({} if environment is None else {"runtime_env": environment}),
            "max_concurrency": _MAX_CONCURRENCY,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        actor_class = ray.remote(RayWorker).options(**options)
        return actor_class.remote(name, self._backend, self._cluster.has_own_folder)

    async def _wait_for_actor(self, name: str, actor: Any) -> None:
        here, there, problem, has_died = library_version(), None, "", False
        with anyio.move_on_after(self._start_timeout) as waiting:
            try:
                there = await outcome_of(actor.describe.remote().future())
            except ray.exceptions.RayError as error:
                problem, has_died = _start_problem(error), was_killed(error)
        if waiting.cancelled_caught:
            problem = f"it was not ready within {self._start_timeout:g} seconds. {await self._shortage()}"
        elif not problem and there != here:
            problem = f"it has version {there} of nighthawk-async, and the program {here}"
        if problem:
            failure = WorkerStartError(f"worker {name} did not start: {problem}")
            failure.was_killed = has_died
            raise failure

    async def _shortage(self) -> str:
        def read() -> tuple[dict[str, float], dict[str, float]]:
            return ray.available_resources(), ray.cluster_resources()

        return describe_shortage(self._needs, *await call_in_thread(read))


def describe_shortage(
    needs: Mapping[str, float], free: Mapping[str, float], total: Mapping[str, float]
) -> str:
    """Describe for what an actor that does not start waits.

    Args:
        needs: The resources that it needs.
        free: The resources of the cluster that are free.
        total: All resources of the cluster.
    """
    missing = [name for name, value in needs.items() if free.get(name, 0) < value]
    if not missing:
        return "Ray has the resources for it, and may still be preparing its runtime environment"
    wants = ", ".join(f"{value:g} {name}" for name, value in needs.items() if value)
    has = ", ".join(f"{free.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in missing)
    return f"Ray waits for resources: each worker needs {wants}, and the cluster has {has} free"


def _start_problem(error: Exception) -> str:
    text, reason = str(error), reason_of(error)
    if "No module named 'nighthawk_async" in text:
        return (
            f"{reason}. Install nighthawk-async on the machines of the cluster, in the version of the "
            "program, for instance with runtime_env={'pip': ['nighthawk-async']}"
        )
    return reason


def _checked_needs(num_cpus: float, num_gpus: float, resources: Mapping[str, float]) -> dict[str, float]:
    """Return the resources that a worker needs, by the names that Ray gives them."""
    _check_amount("num_cpus", num_cpus)
    _check_amount("num_gpus", num_gpus)
    for name, value in resources.items():
        _check_amount(f"resources[{name!r}]", value)
        if name in ("CPU", "GPU", "memory"):
            raise ValueError(f"resources cannot contain {name!r}: use num_cpus, num_gpus or options")
    return {"CPU": num_cpus, "GPU": num_gpus, **resources}


def _check_amount(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise ValueError(f"{name} is a number of at least 0, not {value!r}")


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    ours = [name for name in _OURS if name in options]
    if ours:
        raise ValueError(f"options cannot contain {ours[0]!r}, which RayWorkers sets itself")
    return dict(options)
