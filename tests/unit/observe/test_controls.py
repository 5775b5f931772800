"""A node is influenced from anywhere, and obeys on its own event loop."""

import logging
import threading

import anyio
import anyio.to_thread
import pytest

from nighthawk_async import observe
from nighthawk_async.errors import NighthawkError
from nighthawk_async.observation import NodeWriter, observed
from nighthawk_async.observe import NotControllableError, TaskTree
from nighthawk_async.parallel import NotSuspendedError
from tests.unit.observe.recorded import begin, only

ALL = {"cancel", "steer", "suspend"}


class Control:
    """Notes what it is asked, and in which thread."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.threads: set[int] = set()
        self.was_asked = anyio.Event()

    def _note(self, name: str, argument: object = None) -> None:
        self.asked.append((name, argument))
        self.threads.add(threading.get_ident())
        self.was_asked.set()

    def request_cancel(self, reason: str | None) -> None:
        self._note("cancel", reason)

    def steer(self, *content: str) -> None:
        self._note("steer", content)

    def suspend(self) -> None:
        self._note("suspend")

    def resume(self, input: object = None) -> None:
        self._note("resume", input)


class CancelOnly:
    def request_cancel(self, reason: str | None) -> None:
        raise AssertionError("nobody asks")


class Refusing(Control):
    def resume(self, input: object = None) -> None:
        self._note("resume")
        raise NotSuspendedError("it runs")

    def steer(self, *content: str) -> None:
        self._note("steer")
        raise ZeroDivisionError


def begin_controlled(tree: TaskTree, control: object) -> NodeWriter:
    return begin(tree).begin_child("step", "s", control=control)  # type: ignore[arg-type]


def ask_everything(tree: TaskTree, node_id: str) -> None:
    tree.steer(node_id, "look here")
    tree.suspend(node_id)
    tree.resume(node_id)
    tree.cancel(node_id, "enough")


ASKED = [("steer", ("look here",)), ("suspend", None), ("resume", None), ("cancel", "enough")]


@pytest.mark.anyio
async def test_from_its_own_event_loop_a_node_is_influenced_at_once() -> None:
    tree, control = TaskTree(), Control()
    begin_controlled(tree, control)
    ask_everything(tree, "2")
    assert control.asked == ASKED


@pytest.mark.anyio
async def test_from_another_thread_a_node_is_influenced_on_its_event_loop() -> None:
    tree, control = TaskTree(), Control()
    begin_controlled(tree, control)
    await anyio.to_thread.run_sync(ask_everything, tree, "2")
    while len(control.asked) < 4:
        control.was_asked = anyio.Event()
        await control.was_asked.wait()
    assert control.asked == ASKED
    assert control.threads == {threading.get_ident()}


@pytest.mark.anyio
async def test_from_another_event_loop_a_node_is_influenced_on_its_own() -> None:
    tree, control = TaskTree(), Control()
    begin_controlled(tree, control)

    async def elsewhere() -> None:
        tree.cancel("2")

    await anyio.to_thread.run_sync(lambda: anyio.run(elsewhere))
    await control.was_asked.wait()
    assert control.asked == [("cancel", None)]
    assert control.threads == {threading.get_ident()}


@pytest.mark.anyio
async def test_what_a_node_offers_depends_on_its_control_and_its_state() -> None:
    tree = TaskTree()
    step = begin_controlled(tree, Control())
    assert tree.snapshot("2").controls == ALL
    step.change_state("suspended")
    assert tree.snapshot("2").controls == {"cancel", "steer", "resume"}
    step.set_control(CancelOnly())
    assert tree.snapshot("2").controls == {"cancel"}
    step.set_control(None)
    assert tree.snapshot("2").controls == set()
    step.set_control(Control())
    step.end("completed")
    assert tree.snapshot("2").controls == set()
    step.set_control(Control())
    assert tree.snapshot("2").controls == set()


@pytest.mark.anyio
async def test_what_a_node_does_not_offer_is_refused() -> None:
    tree = TaskTree()
    step = begin_controlled(tree, CancelOnly())
    for ask in (tree.suspend, tree.resume, lambda node_id: tree.steer(node_id, "x")):
        with pytest.raises(NotControllableError, match="node 2: it cannot be asked"):
            ask("2")
    step.end("completed")
    with pytest.raises(NotControllableError, match="ended"):
        tree.cancel("2")
    with pytest.raises(NotControllableError):
        tree.cancel(only(tree).id)
    with pytest.raises(NighthawkError):
        tree.cancel("0")


@pytest.mark.anyio
async def test_a_refusal_is_told_to_whoever_asks_on_the_same_event_loop() -> None:
    tree = TaskTree()
    begin_controlled(tree, Refusing())
    with pytest.raises(NotControllableError, match="refuses to resume: it runs") as caught:
        tree.resume("2")
    assert isinstance(caught.value.__cause__, NotSuspendedError)
    assert (caught.value.node_id, caught.value.reason) == ("2", "it refuses to resume: it runs")


@pytest.mark.anyio
async def test_a_refusal_that_comes_too_late_is_logged_and_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree, control = TaskTree(), Refusing()
    begin_controlled(tree, control)

    def ask() -> None:
        tree.resume("2")
        tree.steer("2", "x")

    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        await anyio.to_thread.run_sync(ask)
        while len(control.asked) < 2:
            control.was_asked = anyio.Event()
            await control.was_asked.wait()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "node 2 refuses to resume",
        "node 2 refuses to steer",
    ]


def test_a_node_whose_event_loop_has_ended_cannot_be_influenced(anyio_backend: tuple[str, object]) -> None:
    tree = TaskTree()

    async def main() -> None:
        begin_controlled(tree, Control())

    anyio.run(main, backend=anyio_backend[0])
    with pytest.raises(NotControllableError, match="event loop has ended"):
        tree.cancel("2")


def test_without_an_event_loop_a_control_is_used_where_it_is_asked() -> None:
    tree = TaskTree()
    asked: list[str | None] = []

    class Plain:
        def request_cancel(self, reason: str | None) -> None:
            asked.append(reason)

    begin_controlled(tree, Plain())
    tree.cancel("2", "why")
    assert asked == ["why"]


@pytest.mark.anyio
async def test_a_control_given_where_something_is_observed_cancels_it() -> None:
    class Scope:
        def __init__(self) -> None:
            self.scope = anyio.CancelScope()

        def request_cancel(self, reason: str | None) -> None:
            self.scope.cancel()

    control = Scope()
    with observe.recording() as tree, control.scope, observed("task", "t", control=control):
        await anyio.to_thread.run_sync(tree.cancel, only(tree).id)
        await anyio.sleep_forever()
    assert only(tree).state == "cancelled"


@pytest.mark.anyio
async def test_a_control_is_let_go_when_its_node_ends() -> None:
    import gc
    import weakref

    tree, control = TaskTree(), Control()
    step = begin_controlled(tree, control)
    gone = weakref.ref(control)
    step.end("completed")
    del control
    gc.collect()
    assert gone() is None
