"""What surrounds a request: run, scope, id, budget, time, node, trace."""

from contextlib import nullcontext
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.tracing import trace_with
from tests.unit.asgi.applications import Steps, answer, stars
from tests.unit.asgi.asgi_client import Connection, get, http_scope, open_connection, open_lifespan, post

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"


def free_steps() -> Steps:
    steps = Steps()
    steps.release.set()
    return steps


async def test_a_request_calls_natural_functions_and_is_answered() -> None:
    steps = free_steps()
    answered = await get(NighthawkMiddleware(steps.app, model=steps.executor))
    assert (answered.status, answered.body, answered.error) == (200, b"3", None)


async def test_the_steps_of_requests_have_the_tools_of_the_service() -> None:
    def look_up(topic: str) -> str:
        return topic

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, str(await stars("***")))

    end = tool_call("nh_outcome", kind="pass", bindings={"count": 3})
    model = ScriptedModel([model_response(end)])
    answered = await get(NighthawkMiddleware(app, model=model, tools=[look_up]))
    assert (answered.status, answered.body, answered.error) == (200, b"3", None)
    assert "look_up" in [tool.name for tool in model.requests[0].tools]


@pytest.mark.parametrize("has_lifespan", [True, False])
async def test_each_request_has_a_scope_of_its_own_with_its_id(has_lifespan: bool) -> None:
    seen: list[nh.ExecutionRef] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(nh.get_execution_ref())
            await answer(send)

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    async with anyio.create_task_group() as tasks:
        stop = anyio.Event()

        async def live() -> None:
            async with open_lifespan(middleware):
                await stop.wait()

        if has_lifespan:
            tasks.start_soon(live)
            await anyio.wait_all_tasks_blocked()
        first = await get(middleware, headers={"x-request-id": "first"})
        second = await get(middleware)
        stop.set()
    assert [ref.scope_id for ref in seen] == ["first", second.headers["x-request-id"]]
    assert first.headers["x-request-id"] == "first"
    assert (seen[0].run_id == seen[1].run_id) is has_lifespan


async def test_requests_at_the_same_time_share_a_run_where_nobody_tells_of_a_lifespan() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    assert middleware.run is None
    async with open_connection(middleware, http_scope()), open_connection(middleware, http_scope()):
        await steps.wait_for_begun(2)
        run = middleware.run
        assert run is not None
        assert run.usage_meter.steps == 2
        steps.release.set()
    assert middleware.run is None
    with pytest.raises(nh.NighthawkError, match="Only an active run"):
        async with run.extent():
            pass


async def test_the_last_of_the_requests_leaves_the_run_whichever_it_is() -> None:
    started = [anyio.Event(), anyio.Event()]
    gates = [anyio.Event(), anyio.Event()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        number = int(scope["path"][1:])
        started[number].set()
        await gates[number].wait()
        await answer(send)

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    async with open_connection(middleware, http_scope("/0")) as first:
        await started[0].wait()
        async with open_connection(middleware, http_scope("/1")):
            await started[1].wait()
            run = middleware.run
            gates[0].set()
            await first.ended.wait()
            assert middleware.run is run
            gates[1].set()
    assert middleware.run is None


async def test_an_id_that_the_application_sends_itself_stays() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"X-Request-Id", b"theirs")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert answered.sent[0]["headers"] == [(b"X-Request-Id", b"theirs")]


async def test_each_request_has_the_budget_by_an_account_of_its_own() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(int(scope["path"][1:])):
            await stars("***")
        await answer(send)

    budget = nh.budget(steps=2)
    middleware = NighthawkMiddleware(app, model=free_steps().executor, request_budget=budget)
    statuses = [(await get(middleware, path)).status for path in ("/2", "/2", "/3", "/2")]
    assert statuses == [200, 200, 429, 200]
    assert budget.spent.steps == 0


async def test_all_requests_share_the_budget_of_the_run() -> None:
    steps = free_steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, budget=nh.budget(steps=2))
    async with open_lifespan(middleware):
        statuses = [(await get(middleware)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


@pytest.mark.virtual_time
async def test_a_request_that_takes_too_long_is_cancelled_and_answered() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, request_timeout=5)
    began_at = anyio.current_time()
    answered = await get(middleware)
    assert (answered.status, answered.error) == (504, None)
    assert anyio.current_time() - began_at == pytest.approx(5)
    assert steps.cancelled == 1


@pytest.mark.virtual_time
async def test_what_an_application_answers_when_it_was_told_to_end_is_not_sent() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await answer(send, "the client has left")

    answered = await get(NighthawkMiddleware(app, model=Steps().executor, request_timeout=5))
    assert (answered.status, len(answered.sent)) == (504, 2)


@pytest.mark.virtual_time
async def test_a_response_that_has_begun_is_ended_when_its_time_is_over() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await anyio.sleep_forever()

    middleware = NighthawkMiddleware(app, model=Steps().executor, request_timeout=5)
    answered = await get(middleware)
    assert (answered.status, answered.body, answered.is_complete) == (200, b"first", False)


@pytest.mark.virtual_time
async def test_what_goes_on_after_the_response_has_all_the_time() -> None:
    done = False

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal done
        await answer(send)
        await anyio.sleep(60)
        done = True

    await get(NighthawkMiddleware(app, model=Steps().executor, request_timeout=5))
    assert done


async def test_a_request_is_a_root_of_the_tree_with_its_steps_below() -> None:
    steps = free_steps()
    tree = nh.observe.TaskTree()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["path_template"] = "/tickets/{id}"
        await steps.app(scope, receive, send)

    middleware = NighthawkMiddleware(app, model=steps.executor, tree=tree)
    assert (middleware.tree, NighthawkMiddleware(app, model=steps.executor).tree) == (tree, None)
    await get(middleware, "/tickets/7", headers={"x-request-id": "seventh"})
    (node,) = (view for view in tree.snapshot().children if view.kind == "request")
    assert (node.name, node.state) == ("GET /tickets/7", "completed")
    assert dict(node.attributes) == {
        "http.request.method": "GET",
        "http.route": "/tickets/{id}",
        "http.response.status_code": 200,
        "nighthawk.request.id": "seventh",
    }
    assert [view.kind for view in node.walk()] == ["request", "function", "step"]


async def test_a_request_that_somebody_cancels_in_the_tree_is_answered() -> None:
    steps = Steps()
    tree = nh.observe.TaskTree()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, tree=tree)
    async with open_connection(middleware, http_scope()) as connection:
        await steps.wait_for_begun(1)
        (node,) = (view for view in tree.snapshot().children if view.kind == "request")
        assert "cancel" in node.controls
        tree.cancel(node.id, "enough")
    assert (connection.status, steps.cancelled) == (503, 1)
    assert tree.snapshot(node.id).state == "cancelled"


@pytest.mark.parametrize("has_span", [True, False])
async def test_the_trace_of_the_client_goes_on(has_span: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a span of a server's own instrumentation is current."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    steps = free_steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    async with open_lifespan(middleware):
        with provider.get_tracer("server").start_as_current_span("server") if has_span else nullcontext():
            await call_here(middleware, http_scope(headers=headers))
        assert not trace.get_current_span().get_span_context().is_valid
    spans = {span.name: span for span in exporter.get_finished_spans()}
    parent = spans["nighthawk.scope"].parent
    assert parent is not None
    if has_span:
        assert parent.span_id == spans["server"].get_span_context().span_id
    else:
        assert (format(parent.trace_id, "032x"), parent.span_id) == (TRACE, 0xB7AD6B7169203331)
    assert spans["nighthawk.scope"].attributes["scope.id"] == TRACE  # type: ignore[index]
    assert spans["nighthawk.run"].get_span_context().trace_id != parent.trace_id


async def call_here(middleware: NighthawkMiddleware, asgi_scope: dict[str, Any]) -> None:
    """Call it in the present task, with its context."""
    connection = Connection()
    connection.feed({"type": "http.request", "body": b"", "more_body": False})
    await middleware(asgi_scope, connection.receive, connection.send)
    assert connection.status == 200


async def test_the_body_reaches_the_application_as_it_was_sent() -> None:
    bodies: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            bodies.append(message["body"])
            more = message["more_body"]
        await answer(send)

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    parts = [{"type": "http.request", "body": bytes([each]), "more_body": True} for each in b"abc"]
    last = {"type": "http.request", "body": b"", "more_body": False}
    async with open_connection(middleware, http_scope(method="POST"), *parts, last):
        pass
    assert bodies == [b"a", b"b", b"c", b""]
    await post(middleware, "/", b"whole")
    assert bodies[4:] == [b"whole"]


@pytest.mark.parametrize(("body", "held"), [(bytes(65_536), 1), (bytes(16_384), 4), (b"x", 128)])
async def test_a_slow_application_slows_the_client_down(body: bytes, held: int) -> None:
    """About 64 KB are held, with what messages take themselves."""
    gate = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        while (await receive())["more_body"]:
            pass
        await answer(send)

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    parts = [{"type": "http.request", "body": body, "more_body": True} for _ in range(1000)]
    last = {"type": "http.request", "body": b"", "more_body": False}
    async with open_connection(middleware, http_scope(method="POST"), *parts, last) as connection:
        await connection.wait_until_asked(1)
        await anyio.wait_all_tasks_blocked()
        assert connection.asked_for == held
        gate.set()
    assert (connection.status, connection.asked_for) == (200, 1002)


async def test_a_client_is_not_asked_for_a_body_that_nobody_wants() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await anyio.wait_all_tasks_blocked()
        await answer(send, status=413)

    asgi_scope = http_scope(method="POST", headers={"expect": "100-continue", "content-length": "9"})
    async with open_connection(NighthawkMiddleware(app, model=Steps().executor), asgi_scope) as connection:
        pass
    assert (connection.status, connection.asked_for) == (413, 0)


async def test_a_failure_of_the_server_reaches_the_application_that_asks() -> None:
    async def receive() -> dict[str, Any]:
        raise ConnectionError("gone")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def send(message: dict[str, Any]) -> None:
        pytest.fail("nothing is sent")

    with pytest.raises(ConnectionError, match="gone"):
        await NighthawkMiddleware(app, model=Steps().executor)(http_scope(), receive, send)


async def test_other_kinds_of_connections_pass() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await get(NighthawkMiddleware(app, model=Steps().executor), type="webtransport")
    assert seen == ["webtransport"]
