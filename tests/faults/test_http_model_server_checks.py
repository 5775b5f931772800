"""What the server refuses in the conversations that are sent back to it, as the real endpoints do."""

import copy
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.messages import ToolCall

CALLS = (ToolCall(id="", name="look", arguments='{"at":"x"}'), ToolCall(id="", name="end", arguments="{}"))
CALLED = ModelReply(reasoning="Hm.", text="I look.", tool_calls=CALLS)
DONE = ModelReply(text="Done.")

CHAT = "/chat/completions"
RESPONSES = "/responses"
ANTHROPIC = "/messages"
GOOGLE = "/models/m:generateContent"


def post(server: ModelServer, path: str, body: Any) -> Any:
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(server.base_url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=240) as response:
        return json.loads(response.read())


def refused(server: ModelServer, path: str, body: Any) -> tuple[int, str]:
    """The status and the message with which a request is refused."""
    with pytest.raises(urllib.error.HTTPError) as raised:
        post(server, path, body)
    with raised.value as error:
        return error.code, json.loads(error.read())["error"]["message"]


def first_body(path: str) -> dict[str, Any]:
    """A question."""
    if path == GOOGLE:
        return {"contents": [{"role": "user", "parts": [{"text": "?"}]}]}
    if path == RESPONSES:
        include = ["reasoning.encrypted_content"]
        return {"model": "m", "input": [{"role": "user", "content": "?"}], "store": False, "include": include}
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}


def next_body(path: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The question, the answer sent back, and the results of its calls."""
    body = copy.deepcopy(first_body(path))
    if path == CHAT:
        message = answer["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message["tool_calls"]
        ]
        body["messages"] += [message, *results]
    elif path == RESPONSES:
        calls = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
        body["input"] += answer["output"]
        body["input"] += [{"type": "function_call_output", "call_id": each, "output": "ok"} for each in calls]
    elif path == ANTHROPIC:
        calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in calls]
        body["messages"] += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": results},
        ]
    else:
        content = answer["candidates"][0]["content"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        responses = [{"functionResponse": {"id": call["id"], "name": call["name"]}} for call in calls]
        body["contents"] += [content, {"role": "user", "parts": responses}]
    return body


def drop(entries: list[dict[str, Any]], **fields: Any) -> None:
    """Remove the entries that have those fields."""
    entries[:] = [each for each in entries if {**each, **fields} != each]


def drop_having(entries: list[dict[str, Any]], name: str) -> None:
    """Remove the entries that have a field of that name."""
    entries[:] = [each for each in entries if name not in each]


SPOILT: list[tuple[str, str, Callable[[dict[str, Any]], object], int, str]] = [
    (CHAT, "no call", lambda body: body["messages"].pop(1), 400, "must be a response to a preceding message"),
    (CHAT, "no result", lambda body: body["messages"].pop(), 400, "did not have response messages: call_"),
    (
        CHAT,
        "two results",
        lambda body: body["messages"].append(body["messages"][-1]),
        400,
        "preceding message",
    ),
    (CHAT, "a late result", lambda body: body["messages"].insert(2, {"role": "user"}), 400, "did not have"),
    (RESPONSES, "no call", lambda body: drop(body["input"], type="function_call"), 400, "No tool call found"),
    (RESPONSES, "no result", lambda body: body["input"].pop(), 400, "No tool output found for function call"),
    (
        RESPONSES,
        "no reasoning",
        lambda body: drop(body["input"], type="reasoning"),
        400,
        "its required 'reason",
    ),
    (
        RESPONSES,
        "an id alone",
        lambda body: body["input"][1].pop("encrypted_content"),
        404,
        "Items are not persisted when `store` is set to false",
    ),
    (
        RESPONSES,
        "another seal",
        lambda body: body["input"][1].update(encrypted_content="oops"),
        400,
        "could not be verified",
    ),
    (
        RESPONSES,
        "reasoning and no more",
        lambda body: body["input"].__delitem__(slice(2, None)),
        400,
        "without its required following item",
    ),
    (ANTHROPIC, "no call", lambda body: body["messages"].pop(1), 400, "unexpected `tool_use_id` found"),
    (ANTHROPIC, "no result", lambda body: body["messages"][2]["content"].pop(), 400, "without `tool_result`"),
    (ANTHROPIC, "no results", lambda body: body["messages"].pop(), 400, "without `tool_result` blocks"),
    (
        ANTHROPIC,
        "no thinking",
        lambda body: body["messages"][1]["content"].pop(0),
        400,
        "Expected `thinking`",
    ),
    (
        ANTHROPIC,
        "other thinking",
        lambda body: body["messages"][1]["content"][0].update(thinking="Ha."),
        400,
        "messages.1: Invalid `signature` in `thinking` block",
    ),
    (
        ANTHROPIC,
        "another signature",
        lambda body: body["messages"][1]["content"][0].update(signature="oops"),
        400,
        "Invalid `signature`",
    ),
    (
        ANTHROPIC,
        "an empty text",
        lambda body: body["messages"][1]["content"][1].update(text=""),
        400,
        "must be non-empty",
    ),
    (ANTHROPIC, "no content", lambda body: body["messages"][0].update(content=[]), 400, "non-empty content"),
    (ANTHROPIC, "no max_tokens", lambda body: body.pop("max_tokens"), 400, "max_tokens: Field required"),
    (GOOGLE, "no call", lambda body: body["contents"].pop(1), 400, "immediately after a function call turn"),
    (
        GOOGLE,
        "no result",
        lambda body: body["contents"][2]["parts"].pop(),
        400,
        "the number of function respon",
    ),
    (
        GOOGLE,
        "another result",
        lambda body: body["contents"][2]["parts"][0]["functionResponse"].update(id="oops"),
        400,
        "other values of 'id'",
    ),
    (
        GOOGLE,
        "no signature",
        lambda body: [part.pop("thoughtSignature", None) for part in body["contents"][1]["parts"]],
        400,
        "Function call `look` is missing a `thought_signature`",
    ),
    (
        GOOGLE,
        "another signature",
        lambda body: [part.update(thoughtSignature="oops") for part in body["contents"][1]["parts"]],
        400,
        "Corrupted thought signature",
    ),
    (GOOGLE, "nothing", lambda body: body["contents"].clear(), 400, "contents is not specified"),
]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, ANTHROPIC, GOOGLE])
def test_an_answer_that_comes_back_unchanged_is_accepted(path: str) -> None:
    with ModelServer.in_thread([CALLED, DONE]) as server:
        answer = post(server, path, first_body(path))
        post(server, path, next_body(path, answer))


@pytest.mark.parametrize(
    ("path", "spoil", "status", "message"),
    [pytest.param(path, *rest, id=f"{path}, {name}") for path, name, *rest in SPOILT],
)
def test_a_conversation_that_comes_back_changed_is_refused(
    path: str, spoil: Callable[[dict[str, Any]], object], status: int, message: str
) -> None:
    with ModelServer.in_thread([CALLED, DONE]) as server:
        body = next_body(path, post(server, path, first_body(path)))
        good = copy.deepcopy(body)
        spoil(body)
        found = refused(server, path, body)
        assert found[0] == status
        assert message in found[1]
        assert "ModelServer(checks_requests=False) lets it pass" in found[1]
        post(server, path, good)  # the refusal used up no reply


@pytest.mark.parametrize(
    ("path", "spoil"),
    [pytest.param(path, spoil, id=f"{path}, {name}") for path, name, spoil, *_ in SPOILT],
)
def test_without_checks_every_conversation_is_accepted(
    path: str, spoil: Callable[[dict[str, Any]], object]
) -> None:
    with ModelServer.in_thread([CALLED, DONE], checks_requests=False) as server:
        body = next_body(path, post(server, path, first_body(path)))
        spoil(body)
        post(server, path, body)


def test_a_stored_response_needs_no_seal() -> None:
    with ModelServer.in_thread([CALLED, DONE]) as server:
        question = {"model": "m", "input": "?"}
        answer = post(server, RESPONSES, question)
        assert "encrypted_content" not in answer["output"][0]
        body = next_body(RESPONSES, answer)
        post(server, RESPONSES, body | {"store": True})


def test_results_may_answer_a_previous_response() -> None:
    with ModelServer.in_thread([DONE]) as server:
        output = {"type": "function_call_output", "call_id": "call_7", "output": "ok"}
        post(server, RESPONSES, {"model": "m", "previous_response_id": "resp_7", "input": [output]})


@pytest.mark.parametrize("path", [ANTHROPIC, GOOGLE])
def test_reasoning_before_an_older_question_need_not_come_back(path: str) -> None:
    with ModelServer.in_thread([CALLED, DONE]) as server:
        body = next_body(path, post(server, path, first_body(path)))
        if path == ANTHROPIC:
            body["messages"][1]["content"].pop(0)
            body["messages"] += [
                {"role": "assistant", "content": "Done."},
                {"role": "user", "content": "And now?"},
            ]
        else:
            for part in body["contents"][1]["parts"]:
                part.pop("thoughtSignature", None)
            body["contents"] += [
                {"role": "model", "parts": [{"text": "Done."}]},
                {"role": "user", "parts": [{"text": "And now?"}]},
            ]
        post(server, path, body)


def test_a_version_of_anthropic_messages_is_wanted() -> None:
    with ModelServer.in_thread([DONE]) as server:
        content = json.dumps(first_body(ANTHROPIC)).encode()
        request = urllib.request.Request(server.base_url + ANTHROPIC, content)
        with pytest.raises(urllib.error.HTTPError) as raised, urllib.request.urlopen(request, timeout=240):
            pass
        with raised.value as error:
            assert b"anthropic-version: header is required" in error.read()
