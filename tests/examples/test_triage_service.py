"""The example service in a real server process: its endpoints, its clients, and how it ends."""

from collections.abc import AsyncGenerator
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.to_thread
import pytest

from nighthawk_async.testing import ModelServer
from tests.examples.triage_serving import (
    Answer,
    Triage,
    TriageModel,
    killed_triage,
    read_answer,
    reset,
    tokens_of,
    triage_under,
)

CLIENTS = 80
LOAD = 240

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("warm_python")]


@pytest.fixture(scope="module", params=[("asyncio", {}), ("trio", {})], ids=["uvicorn", "hypercorn-trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Uvicorn is tested from asyncio and Hypercorn on Trio from Trio: once each is enough."""
    return request.param


@pytest.fixture
async def server(anyio_backend: tuple[str, dict[str, Any]]) -> str:
    return "uvicorn" if anyio_backend[0] == "asyncio" else "hypercorn"


@pytest.fixture
async def model() -> TriageModel:
    return TriageModel()


@pytest.fixture
async def model_server(model: TriageModel) -> AsyncGenerator[ModelServer, None]:
    async with ModelServer(model.answer) as model_server:
        yield model_server


def is_quiet(before: dict[str, Any]) -> Any:
    """Whether the service is as it was before, but for connections to the model that wait for work."""

    def holds(state: dict[str, Any]) -> bool:
        return (
            state["tasks"] <= before["tasks"]
            and not state["going_on"]
            and (state["requests_in_progress"], state["requests_waiting"]) == (0, 0)
        )

    return holds


async def test_a_ticket_is_sorted_and_bad_bodies_are_refused(server: str, model_server: ModelServer) -> None:
    async with triage_under(server, model_server) as triage:
        angry = await triage.ask("POST", "/tickets", {"text": "It is broken."}, "x-request-id: angry\r\n")
        assert (angry.status, angry.json()) == (200, {"sentiment": "negative", "queue": "soon"})
        assert "x-request-id: angry" in angry.head
        happy = await triage.ask("POST", "/tickets", {"text": "Thank you!"})
        assert happy.json() == {"sentiment": "positive", "queue": "later"}
        empty = await triage.ask("POST", "/tickets", {"text": ""})
        assert (empty.status, "text" in empty.json()["detail"]) == (422, True)
        huge = await triage.ask("POST", "/tickets", {"text": "x" * 1024 * 1024})
        assert huge.status == 413
        health = (await triage.ask("GET", "/health")).json()
        assert (health["status"], health["model_requests"], health["steps"]) == ("up", 2, 2)


async def test_a_batch_tells_its_progress_and_then_its_result(server: str, model_server: ModelServer) -> None:
    async with triage_under(server, model_server) as triage:
        answer = await triage.ask("POST", "/batches", {"tickets": ["It is broken.", "Great!", "Nice!"]})
        events = answer.events()
        assert {name for name, _ in events[:-1]} == {"progress"}
        assert (events[-2][1]["done"], events[-2][1]["total"]) == (3, 3)
        name, data = events[-1]
        assert name == "result"
        assert [each["queue"] for each in data["value"]] == ["soon", "later", "later"]


async def test_an_interrupted_batch_continues_when_it_is_sent_again(
    server: str, model: TriageModel, model_server: ModelServer, tmp_path: Path
) -> None:
    variables = {"JOURNAL": f"sqlite:///{tmp_path}/journal.db", "TRIAGE_MAX_BATCH_STEPS": "2"}
    tickets = ["It is broken.", "Great!", "Nice!", "Also broken.", "Thank you!", "Good."]
    batch = ("POST", "/batches", {"tickets": tickets}, 'idempotency-key: "monday"\r\n')
    model.hold(after=3)
    async with killed_triage(server, model_server, **variables) as triage, triage.connected(*batch):
        await model.wait_until_asked(5)
        triage.process.kill()
    model.release()
    async with triage_under(server, model_server, **variables) as triage:
        events = (await triage.ask(*batch)).events()
        assert [each["queue"] for each in events[-1][1]["value"]] == [
            "soon",
            "later",
            "later",
            "soon",
            "later",
            "later",
        ]
        assert len(model.asked) == 5 + 3  # two were in flight when it was killed
    async with triage_under(server, model_server, **variables) as triage:
        again = await triage.ask(*batch)
        assert ("idempotent-replayed: true" in again.head, again.events()) == (True, events[-1:])
        assert len(model.asked) == 8


async def test_an_investigation_goes_on_after_its_request_and_is_steered(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    async with triage_under(server, model_server) as triage:
        begun = await triage.ask("POST", "/investigations", {"text": "I cannot log in."})
        assert (begun.status, begun.json()["status"]) == (202, "running")
        one = f"/investigations/{begun.json()['id']}"
        assert f"location: {one}".lower() in begun.head
        await model.wait_until_asked(1)
        async with triage.connected("GET", f"{one}/events") as watching:
            steered = await triage.ask("POST", f"{one}/steer", {"message": "Mention cats."})
            assert steered.status == 202
            model.release()
            events = (await read_answer(watching)).events()
        assert "Mention cats." in model.asked[1].content.decode()
        assert "Login fails" in model.asked[1].content.decode()
        assert (events[-1][0], events[-1][1]["state"]) == ("end", "completed")
        assert [data["state"] for name, data in events if name == "step"][-1] == "completed"
        over = (await triage.ask("GET", one)).json()
        assert (over["status"], "look into it" in over["reply"]) == ("completed", True)
        late = await triage.ask("POST", f"{one}/steer", {"message": "Mention dogs."})
        assert late.status == 409
        again = await triage.ask("GET", f"{one}/events")
        assert again.events()[-1] == events[-1]
        unknown = await triage.ask("GET", "/investigations/unknown")
        assert unknown.status == 404


async def test_an_investigation_is_cancelled_down_to_its_model_request(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    async with triage_under(server, model_server, TRIAGE_MAX_INVESTIGATIONS="1") as triage:
        before = await triage.state()
        begun = await triage.ask("POST", "/investigations", {"text": "I cannot log in."})
        one = f"/investigations/{begun.json()['id']}"
        refused = await triage.ask("POST", "/investigations", {"text": "Nor can I."})
        assert (refused.status, "retry-after: 5" in refused.head) == (503, True)
        await model.wait_until_asked(1)
        async with triage.connected("GET", f"{one}/events") as watching:
            cancelled = await triage.ask("DELETE", one)
            assert cancelled.json()["status"] == "cancelled"
            events = (await read_answer(watching)).events()
        assert (events[-1][0], events[-1][1]["state"]) == ("end", "cancelled")
        await model_server.wait_until_open(0)
        await triage.wait_until(is_quiet(before))
        assert (await triage.ask("DELETE", one)).json()["status"] == "cancelled"


async def test_a_step_that_somebody_cancels_ends_its_investigation(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    async with triage_under(server, model_server) as triage:
        before = await triage.state()
        begun = await triage.ask("POST", "/investigations", {"text": "I cannot log in."})
        await model.wait_until_asked(1)
        assert (await triage.ask("POST", "/cancel-steps")).json() == 1
        await model_server.wait_until_open(0)
        await triage.wait_until(is_quiet(before))
        over = (await triage.ask("GET", f"/investigations/{begun.json()['id']}")).json()
        assert (over["status"], over["reply"]) == ("cancelled", None)


async def test_a_step_that_somebody_cancels_ends_its_request(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    error = "answered with the status 503: TaskCancelledError: task run/request[0] was cancelled: enough"
    async with (
        triage_under(server, model_server, logged=error) as triage,
        triage.connected("POST", "/tickets", {"text": "It is broken."}) as waiting,
    ):
        await model.wait_until_asked(1)
        assert (await triage.ask("POST", "/cancel-steps")).json() == 1
        refused = await read_answer(waiting)
        assert (refused.status, b"enough" in refused.body) == (503, False)
        await model_server.wait_until_open(0)


async def test_the_dashboard_shows_what_the_endpoints_do(server: str, model_server: ModelServer) -> None:
    token = "sixteen-characters-at-least"
    async with triage_under(server, model_server, TRIAGE_DASHBOARD_TOKEN=token) as triage:
        await triage.ask("POST", "/tickets", {"text": "It is broken."})
        page = await triage.ask("GET", "/dashboard/")
        assert (page.status, b"<html" in page.body) == (200, True)
        tree = await triage.ask("GET", "/dashboard/api/tree")
        assert b"POST /tickets" in tree.body
        assert b"/dashboard" not in tree.body, "it does not show requests to itself"
        state = await triage.state()
        assert (state["requests_in_progress"], len(state["used_by"])) == (0, 1)


async def test_a_machine_that_is_busy_fails_no_test_of_the_service(
    server: str, model_server: ModelServer
) -> None:
    """Every call is said to hold the event loop, as it may where others use the processors."""
    async with triage_under(server, model_server, EVERY_CALL_IS_SLOW="yes") as triage:
        assert (await triage.ask("POST", "/tickets", {"text": "It is broken."})).status == 200
    assert "held the event loop" in triage.log


async def test_many_clients_are_answered_at_once(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    answers: dict[int, Answer] = {}

    async def ask(triage: Triage, number: int) -> None:
        text = "It is broken." if number % 2 else "Thank you!"
        answers[number] = await triage.ask("POST", "/tickets", {"text": f"{text} ticket number {number}"})

    async with triage_under(server, model_server) as triage:
        before = await triage.state()
        async with anyio.create_task_group() as clients:
            for number in range(CLIENTS):
                clients.start_soon(ask, triage, number)
            await model.wait_until_asked(CLIENTS)
            model.release()
        assert {answer.status for answer in answers.values()} == {200}
        queues = {number: answer.json()["queue"] for number, answer in answers.items()}
        assert queues == {number: "soon" if number % 2 else "later" for number in range(CLIENTS)}
        state = await triage.wait_until(is_quiet(before))
        tokens = sum(1_000 + number for number in range(CLIENTS))
        assert state["used"] == [CLIENTS, tokens, 5 * CLIENTS]
        assert state["recorded"] == [CLIENTS, tokens]


async def test_clients_that_crash_leave_nothing_behind(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    paths = ("/tickets", {"text": "Hm."}), ("/batches", {"tickets": ["Hm."] * 3})

    async def crash(triage: Triage, number: int, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        path, body = paths[number % 2]
        async with triage.connected("POST", path, body) as stream:
            task_status.started()
            await all_asked.wait()
            reset(stream)

    async with triage_under(server, model_server) as triage:
        before = await triage.state()
        all_asked = anyio.Event()
        async with anyio.create_task_group() as clients:
            for number in range(60):
                await clients.start(crash, triage, number)
            await model.wait_until_asked(30 + 3 * 30)
            all_asked.set()
        await triage.wait_until(is_quiet(before))
        await model_server.wait_until_open(0)
        model.release()
        assert (await triage.ask("POST", "/tickets", {"text": "Hm."})).status == 200


async def test_a_client_that_reads_slowly_holds_nobody_up_and_misses_nothing(
    server: str, model_server: ModelServer
) -> None:
    batch = {"tickets": [f"It is broken, ticket number {number}. {'x' * 3_000}" for number in range(150)]}
    async with triage_under(server, model_server) as triage:
        before = await triage.state()
        async with (
            triage.connected("POST", "/batches", batch) as slow,
            triage.connected("POST", "/batches", batch) as leaving,
        ):
            await leaving.receive(1_000)
            await triage.wait_until(lambda state: state["used"][0] == 300)
            assert (await triage.ask("POST", "/tickets", {"text": "Great!"})).status == 200
            reset(leaving)
            await leaving.aclose()
            events = (await read_answer(slow)).events()
        results = [data for name, data in events if name == "result"]
        assert [len(result["value"]) for result in results] == [150]
        await triage.wait_until(is_quiet(before))


async def test_under_load_of_which_a_third_leaves_nothing_is_left_and_usage_adds_up(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    random = Random(7)
    answered: set[int] = set()
    refused: dict[int, object] = {}
    has_answered = [anyio.Event() for _ in range(LOAD)]

    async def ask(triage: Triage, number: int) -> None:
        body = {"text": f"Hm, ticket number {number}"}
        async with triage.connected("POST", "/tickets", body, f"x-request-id: {number}\r\n") as stream:
            answer = await read_answer(stream)
            if answer.status == 200:
                has_answered[len(answered)].set()
                answered.add(number)
            else:
                refused[number] = answer

    async def leave(triage: Triage, number: int, answers: int) -> None:
        """Leave when so many others were answered: at any moment of one's own request."""
        async with anyio.create_task_group() as client:
            client.start_soon(ask, triage, number)
            await has_answered[answers].wait()
            client.cancel_scope.cancel()

    async with triage_under(server, model_server) as triage:
        before = await triage.state()
        async with anyio.create_task_group() as clients:
            for number in range(LOAD):
                if number % 3:
                    clients.start_soon(ask, triage, number)
                else:
                    clients.start_soon(leave, triage, number, random.randrange(LOAD // 2))
        assert {number: answer for number, answer in refused.items() if number % 3} == {}
        assert answered >= {number for number in range(LOAD) if number % 3}
        state = await triage.wait_until(is_quiet(before))
        assert state["sockets"] - before["sockets"] <= model_server.connections.open
        used_by: dict[str, int] = state["used_by"]
        assert {number: used_by[str(number)] for number in answered} == {
            number: tokens_of(f"ticket number {number}") for number in answered
        }
        assert state["used"][1] == state["recorded"][1] == sum(used_by.values())
        assert (await triage.ask("POST", "/tickets", {"text": "Hm."})).status == 200


async def test_what_is_in_progress_is_answered_when_the_service_ends(
    server: str, model: TriageModel, model_server: ModelServer
) -> None:
    model.hold()
    async with triage_under(server, model_server) as triage:
        await triage.ask("POST", "/investigations", {"text": "I cannot log in."})
        async with triage.connected("POST", "/tickets", {"text": "It is broken."}) as stream:
            await model.wait_until_asked(2)
            triage.process.terminate()
            model.release()
            answer = await read_answer(stream)
        assert (answer.status, answer.json()["queue"]) == (200, "soon")
