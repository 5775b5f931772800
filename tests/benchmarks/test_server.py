import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchmarks.server.chat import PIECE
from benchmarks.server.running import running_server
from benchmarks.subjects import server_client

SET = {"name": "set_result", "arguments": {"value": 42, "why": "as asked " * 5}}
NOTE = {"name": "note", "arguments": {"sent_at": "{sent_at}"}}
TWO_TURNS = {"turns": [{"text": "Let me see.", "calls": [SET, SET]}, {"text": "done"}]}
TURN_OF_ASSISTANT = {
    "chat/completions": {"messages": [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}]},
    "responses": {
        "input": [
            {"role": "user", "content": "x"},
            {"type": "reasoning"},
            {"type": "function_call"},
            {"type": "function_call_output"},
        ]
    },
}
FIRST_TURN = {"chat/completions": {"messages": [{"role": "user"}]}, "responses": {"input": "x"}}
PATHS = tuple(FIRST_TURN)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


def ask(client: httpx.Client, base_url: str, path: str, **body: Any) -> httpx.Response:
    return client.post(f"{base_url}/{path}", json=body)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def said_in_chat(message: dict[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = [(function["name"], json.loads(function["arguments"])) for function in functions]
    return message["content"] or "", calls


def said_in_responses(output: list[dict[str, Any]]) -> tuple[str, list[tuple[str, Any]]]:
    texts = [item["content"][0]["text"] for item in output if item["type"] == "message"]
    calls = [item for item in output if item["type"] == "function_call"]
    return "".join(texts), [(call["name"], json.loads(call["arguments"])) for call in calls]


def said(path: str, response: httpx.Response) -> tuple[str, list[tuple[str, Any]]]:
    body = response.raise_for_status().json()
    if path == "responses":
        return said_in_responses(body["output"])
    return said_in_chat(body["choices"][0]["message"])


def said_in_stream(path: str, response: httpx.Response) -> tuple[str, list[tuple[str, Any]]]:
    told = events(response)
    if path == "responses":
        assert [event["sequence_number"] for event in told] == list(range(len(told)))
        return said_in_responses(told[-1]["response"]["output"])
    message: dict[str, Any] = {"content": "", "tool_calls": []}
    for delta in (choice["delta"] for event in told for choice in event["choices"]):
        message["content"] += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(message["tool_calls"]):
                message["tool_calls"].append(part)
            else:
                message["tool_calls"][part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    return said_in_chat(message)


@pytest.mark.parametrize("path", PATHS)
def test_the_turn_of_a_script_that_a_request_asks_for_is_answered(
    server: str, client: httpx.Client, path: str
) -> None:
    base_url = server_client.put_script(server, "two-turns", TWO_TURNS)
    called = ("set_result", SET["arguments"])
    for asked, expected in (
        (FIRST_TURN[path], ("Let me see.", [called, called])),
        (TURN_OF_ASSISTANT[path], ("done", [])),
    ):
        assert said(path, ask(client, base_url, path, **asked)) == expected
        assert said_in_stream(path, ask(client, base_url, path, **asked, stream=True)) == expected


@pytest.mark.parametrize("path", PATHS)
def test_arguments_come_in_small_pieces_as_models_send_them(
    server: str, client: httpx.Client, path: str
) -> None:
    base_url = server_client.put_script(server, "pieces", TWO_TURNS)
    told = events(ask(client, base_url, path, **FIRST_TURN[path], stream=True))
    if path == "responses":
        pieces = [event["delta"] for event in told if event["type"].endswith("arguments.delta")]
    else:
        deltas = [choice["delta"] for event in told for choice in event["choices"]]
        parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
        pieces = [part["function"]["arguments"] for part in parts]
    assert len(pieces) > 10
    assert max(len(piece) for piece in pieces) <= PIECE


@pytest.mark.parametrize("path", PATHS)
def test_the_moment_of_sending_takes_its_place_in_the_arguments(
    server: str, client: httpx.Client, path: str
) -> None:
    base_url = server_client.put_script(server, "stamped", {"turns": [{"calls": [NOTE]}]})
    before = time.monotonic()
    _, [(_, whole)] = said(path, ask(client, base_url, path, **FIRST_TURN[path]))
    _, [(_, streamed)] = said_in_stream(path, ask(client, base_url, path, **FIRST_TURN[path], stream=True))
    assert before - 1e-3 <= float(whole["sent_at"]) <= float(streamed["sent_at"]) <= time.monotonic() + 1e-3


@pytest.mark.parametrize("path", PATHS)
def test_the_calls_are_complete_long_before_a_response_that_goes_on_ends(
    server: str, client: httpx.Client, path: str
) -> None:
    script = {"turns": [{"text": "and so on " * 5, "calls": [NOTE]}], "after_calls_seconds": 0.5}
    base_url = server_client.put_script(server, "goes-on", script)
    body = {**FIRST_TURN[path], "stream": True}
    arrived: list[tuple[float, bytes]] = []
    with client.stream("POST", f"{base_url}/{path}", json=body) as response:
        for part in response.iter_raw():
            arrived.append((time.monotonic(), part))
    of_calls = b"function_call_arguments" if path == "responses" else b'"tool_calls":['
    complete_at = max(moment for moment, part in arrived if of_calls in part)
    ended_at, _ = arrived[-1]
    assert ended_at - complete_at > 0.2
    assert b"and so on" in b"".join(part for moment, part in arrived if moment > complete_at)


def test_no_response_begins_before_its_first_byte_is_due(server: str, client: httpx.Client) -> None:
    base_url = server_client.put_script(server, "late", {**TWO_TURNS, "first_byte_seconds": 0.2})
    began = time.monotonic()
    said("responses", ask(client, base_url, "responses", **FIRST_TURN["responses"]))
    assert time.monotonic() - began >= 0.19


def test_requests_turns_connections_and_errors_are_counted(server: str, client: httpx.Client) -> None:
    base_url = server_client.put_script(server, "counted", TWO_TURNS)
    server_client.reset(server)
    for path in PATHS:
        ask(client, base_url, path, **FIRST_TURN[path])
    assert ask(client, base_url, "chat/completions", nonsense=True).status_code == 400
    counted = server_client.counts(server)
    assert (counted["requests"], counted["turns"], counted["errors"]) == (3, 2, 1)
    assert counted["connections"] == 2  # the client's, and the one that asks for the counts
    assert 0 < counted["first_request_at"] <= time.monotonic()
    server_client.reset(server)
    assert server_client.counts(server)["requests"] == 0


@pytest.mark.parametrize("path", PATHS)
def test_a_request_beyond_the_script_is_refused(server: str, client: httpx.Client, path: str) -> None:
    base_url = server_client.put_script(server, "short", {"turns": [{"text": "done"}]})
    refused = ask(client, base_url, path, **TURN_OF_ASSISTANT[path])
    assert refused.status_code == 400
    assert "1 turns" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "script",
    [
        {"turns": []},
        {"turns": [{}]},
        {"turns": [{"calls": [NOTE, SET]}]},
        {"turns": [{"text": "x"}], "first_bite_seconds": 1},
    ],
)
def test_what_is_no_script_is_refused(server: str, script: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no script"):
        server_client.put_script(server, "wrong", script)


def test_a_body_in_chunks_and_a_request_behind_another_are_understood(server: str) -> None:
    base_url = server_client.put_script(server, "raw", {**TWO_TURNS, "first_byte_seconds": 0.05})
    path = base_url.removeprefix(server) + "/responses"
    body = json.dumps(FIRST_TURN["responses"]).encode()
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode()
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + parts
    sized = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    port = int(server.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=240) as connection:
        # Byte by byte at first: nothing is answered until a request is complete.
        for position in range(40):
            connection.sendall(chunked[position : position + 1])
        connection.sendall(chunked[40:] + sized)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 2 or not received.endswith(b"}"):
            part = connection.recv(65536)
            assert part
            received += part
    assert received.count(b'"status":"completed","error"') == 2


def test_many_connections_are_served_at_once(server: str) -> None:
    base_url = server_client.put_script(server, "many", {**TWO_TURNS, "first_byte_seconds": 0.3})
    server_client.reset(server)

    def ask_once() -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:
            said("responses", ask(client, base_url, "responses", **FIRST_TURN["responses"]))

    threads = [threading.Thread(target=ask_once) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = server_client.counts(server)
    assert (counted["turns"], counted["errors"]) == (20, 0)
