"""Children that stop their own supervisor, or wait for it."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from nighthawk_async.actors import (
    Actor,
    Child,
    Restart,
    Supervisor,
    SupervisorDeadlockError,
    current_child,
)

pytestmark = pytest.mark.anyio

NEVER = Restart(mode="never")


class Caller(Actor):
    """Calls what it is given."""

    async def call(self, function: Callable[[], Awaitable[object]]) -> object:
        """Call it."""
        return await function()


WAITS: list[Callable[[Supervisor], Awaitable[None]]] = [
    lambda supervisor: supervisor.stop(),
    lambda supervisor: supervisor.stop(float("inf")),
    lambda supervisor: supervisor.wait_ended(),
    lambda supervisor: supervisor.stop_child("child"),
]


@pytest.mark.parametrize("wait", WAITS)
async def test_a_function_that_waits_for_its_own_end_fails(
    wait: Callable[[Supervisor], Awaitable[None]],
) -> None:
    with anyio.fail_after(240):
        async with Supervisor() as supervisor:

            async def child() -> None:
                current_child()
                await wait(supervisor)

            supervisor.start("child", child, restart=NEVER)
            await supervisor.wait_ended()
            (state,) = supervisor.children
            assert isinstance(state.last_error, SupervisorDeadlockError)
            assert supervisor.status == "running"


@pytest.mark.parametrize("wait", WAITS)
async def test_a_handler_that_waits_for_the_end_of_its_actor_fails(
    wait: Callable[[Supervisor], Awaitable[None]],
) -> None:
    with anyio.fail_after(240):
        async with Supervisor() as supervisor:
            caller = supervisor.start_actor("child", Caller, restart=NEVER)
            with pytest.raises(SupervisorDeadlockError):
                await caller.ask(Caller.call, lambda: wait(supervisor))


async def test_a_child_of_an_inner_supervisor_cannot_wait_for_the_outer_one() -> None:
    errors: list[Exception] = []

    async def child(outer: Supervisor) -> None:
        for wait in (outer.stop, outer.wait_ended, lambda: outer.stop_child("inner")):
            try:
                await wait()
            except SupervisorDeadlockError as error:
                errors.append(error)
        await outer.stop_child("other")

    with anyio.fail_after(240):
        async with Supervisor() as outer:

            async def inner() -> None:
                await Supervisor(children=[Child(name="child", function=lambda: child(outer))]).run()

            outer.start("other", anyio.sleep_forever)
            outer.start("inner", inner)
            await outer.wait_ended()
    assert len(errors) == 3


async def test_a_child_may_stop_a_sibling_and_what_it_has_itself_entered() -> None:
    async def busy(outer: Supervisor) -> None:
        async with Supervisor() as own:
            own.start("idle", anyio.sleep_forever)
            await own.stop()
        await outer.stop_child("sibling")

    with anyio.fail_after(240):
        async with Supervisor() as supervisor:
            supervisor.start("sibling", anyio.sleep_forever)
            supervisor.start("busy", lambda: busy(supervisor))
            await supervisor.wait_ended()
            assert [child.status for child in supervisor.children] == ["stopped", "stopped"]


async def test_a_child_that_was_started_by_its_sibling_may_stop_that() -> None:
    with anyio.fail_after(240):
        async with Supervisor() as supervisor:

            async def parent() -> None:
                supervisor.start("child", lambda: supervisor.stop_child("parent"))
                await anyio.sleep_forever()

            supervisor.start("parent", parent)
            await supervisor.wait_ended()
            assert supervisor.statistics().failures == 0


async def test_a_child_may_ask_its_supervisor_to_stop_without_waiting() -> None:
    log: list[str] = []
    with anyio.fail_after(240):
        async with Supervisor() as supervisor:

            async def child() -> None:
                supervisor.request_stop()
                await current_child().wait_stop_requested()
                log.append("function")

            async def handler() -> None:
                supervisor.request_stop()
                log.append("handler")

            caller = supervisor.start_actor("actor", Caller)
            await caller.ask(Caller.call, handler)
            await supervisor.wait_ended()
        assert supervisor.status == "stopped"
        async with Supervisor() as supervisor:
            supervisor.start("child", child)
            await supervisor.wait_ended()
        assert supervisor.status == "stopped"
    assert log == ["handler", "function"]


async def test_a_task_that_a_child_leaves_in_a_task_group_outside_may_wait() -> None:
    with anyio.fail_after(240):
        async with anyio.create_task_group() as task_group, Supervisor() as supervisor:

            async def child() -> None:
                task_group.start_soon(supervisor.stop)

            supervisor.start("child", child)
            supervisor.start("other", anyio.sleep_forever)
    assert supervisor.status == "stopped"
