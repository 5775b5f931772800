"""What the model server does for clients that ask in one piece, or check more than the answer."""

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.server.running import running_server
from benchmarks.subjects.server_client import counts, put_script

LIMIT_SECONDS = 240
NOTE = {"name": "note", "arguments": {"sent_at": "{sent_at}"}}


@pytest.fixture
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


def fetch(url: str, body: dict[str, Any] | None = None) -> Any:
    """What is answered, in one piece."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=LIMIT_SECONDS) as response:
        return json.load(response)


def test_responses_hold_what_the_script_says_beside_the_turn(server: str) -> None:
    script = {"turns": [{"text": "done"}], "response_fields": {"model": "another", "truncation": "disabled"}}
    base_url = put_script(server, "checked", script)
    response = fetch(f"{base_url}/responses", {"input": "hello"})
    assert (response["model"], response["truncation"]) == ("another", "disabled")
    assert response["output"][0]["content"][0]["text"] == "done"
    completion = fetch(f"{base_url}/chat/completions", {"messages": []})
    assert (completion["model"], completion["choices"][0]["message"]["content"]) == ("another", "done")


def test_the_models_are_listed_and_that_is_no_request_to_a_model(server: str) -> None:
    base_url = put_script(server, "asked", {"turns": [{"text": "done"}]})
    assert [model["id"] for model in fetch(f"{base_url}/models")["data"]] == ["benchmark"]
    assert counts(server)["requests"] == 0


@pytest.mark.parametrize(
    ("path", "body"), [("chat/completions", {"messages": []}), ("responses", {"input": "hello"})]
)
def test_an_answer_in_one_piece_is_held_back_until_the_model_has_ended(
    server: str, path: str, body: dict[str, Any]
) -> None:
    script = {"turns": [{"calls": [NOTE], "text": "and so on"}], "after_calls_seconds": 0.2}
    base_url = put_script(server, "held", script)
    response = fetch(f"{base_url}/{path}", body)
    arrived = time.monotonic()
    call = (
        response["choices"][0]["message"]["tool_calls"][0]["function"]
        if "choices" in response
        else next(item for item in response["output"] if item["type"] == "function_call")
    )
    assert arrived - float(json.loads(call["arguments"])["sent_at"]) >= 0.2
