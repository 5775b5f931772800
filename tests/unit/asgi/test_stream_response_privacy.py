"""What clients are told of a call, and what is the service's own."""

import json

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.observation import find_node_writer
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.unit.asgi.asgi_client import get
from tests.unit.asgi.event_stream_scripts import bare_app, read, served

pytestmark = pytest.mark.anyio

SECRET = "the prompt of Ada"


async def test_what_is_the_services_own_is_told_only_when_asked_for() -> None:
    async def work() -> None:
        around = find_node_writer()
        assert around is not None
        node = around.begin_child(
            "step", "work", source=SECRET, attributes={"nighthawk.step.program": SECRET}
        )
        node.write("note", SECRET)
        node.write("text", "said")
        node.end("failed", error=ValueError(SECRET))

    hidden = await get(served(work))
    shown = await get(served(work, tell_internals=True))
    assert SECRET not in hidden.body.decode()
    assert (read(hidden).text(), read(hidden).names[-1]) == ("said", "result")
    assert json.dumps(read(shown).told).count(SECRET) == 4


def open_file() -> str:
    raise OSError(f"cannot open {SECRET}")


@nh.natural_function
async def look() -> int:
    count: int
    """natural
    Call <open_file> and set <:count> to the number of its lines.
    """
    return count


@pytest.mark.parametrize("tells_internals", [False, True])
async def test_why_a_tool_has_failed_is_told_only_when_asked_for(tells_internals: bool) -> None:
    model = ScriptedModel(
        [
            model_response(
                tool_call("nh_eval", expression="open_file()"), tool_call("nh_eval", expression="40 + 2")
            ),
            model_response(
                tool_call("nh_assign", target_path="count", expression="3"),
                tool_call("nh_outcome", kind="pass"),
            ),
        ]
    )
    app = bare_app(look, tell_internals=tells_internals)
    executor = nh.AgentStepExecutor.from_model(model=model)
    answered = await get(NighthawkMiddleware(app, model=executor))
    told = read(answered)
    transcript = next(node for node in told.known.nodes.values() if node["kind"] == "step")["transcript"]
    results = [part["text"] for part in transcript if part["kind"] == "tool_result"]
    assert (SECRET in answered.body.decode()) is tells_internals
    assert (SECRET in results[0]) is tells_internals
    assert "42" in results[1]
    assert told.told[-1] == {"value": 3}


async def test_a_result_of_which_the_beginning_is_left_out_is_not_told() -> None:
    """Nobody could say whether it was one of a call that has failed."""
    failure = json.dumps({"value": None, "error": {"kind": "execution", "message": SECRET * 10_000}})

    async def work() -> None:
        around = find_node_writer()
        assert around is not None
        node = around.begin_child("step", "work")
        node.write("text", "said")
        node.write("tool_result", failure, key="open_file#1")
        node.end("completed")

    answered = await get(served(work))
    assert SECRET not in answered.body.decode()
    assert read(answered).text() == "said"


async def test_only_what_steps_tools_and_models_work_with_is_told_unless_more_is_asked_for() -> None:
    async def work() -> None:
        around = find_node_writer()
        assert around is not None
        for kind in ("function", "task", "job", "question"):
            around.begin_child(kind, kind, inputs={"item": SECRET}).end(
                "completed", outputs={"return": SECRET}
            )
        around.begin_child("model_request", "chat", inputs={"last_message": SECRET}).end("completed")
        for kind in ("step", "tool_call"):
            around.begin_child(kind, kind, inputs={"read": "in"}).end("completed", outputs={"wrote": "out"})

    hidden = await get(served(work))
    shown = await get(served(work, tell_internals=True))
    assert SECRET not in hidden.body.decode()
    assert shown.body.decode().count(SECRET) == 9
    told = read(hidden).known.shown()["children"][-2:]
    assert [(node["inputs"], node["outputs"]) for node in told] == [
        ({"read": '"in"'}, {"wrote": '"out"'})
    ] * 2
