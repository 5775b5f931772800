"""Native calls in the answers of every protocol: their events, their uses, and what goes back."""

import json
from typing import Any

import pytest

from nighthawk_async.models import ModelEvent, NativeCallFinished, NativeCallStarted, Usage
from nighthawk_async.types.model import ResponseFinished, UsageReported
from tests.unit.wire import anthropic, chat, gemini, responses

QUERY = {"query": "who won"}
FOUND = [
    {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "c2VjcmV0"}
]
SHOWN = '[{"type": "web_search_result", "url": "https://a.example", "title": "A"}]'


def native_in(events: list[ModelEvent]) -> list[ModelEvent]:
    """The events of native calls."""
    return [event for event in events if isinstance(event, NativeCallStarted | NativeCallFinished)]


def last_usage(events: list[ModelEvent]) -> Usage:
    """The usage that was reported last."""
    return [event.usage for event in events if isinstance(event, UsageReported)][-1]


def items_of(events: list[ModelEvent]) -> list[Any]:
    """What goes back to the provider."""
    end = events[-1]
    assert isinstance(end, ResponseFinished)
    assert end.provider_content is not None
    return list(end.provider_content.items)


def uses(usage: Usage) -> tuple[int, int, int]:
    """The uses of native tools."""
    return usage.web_searches, usage.code_executions, usage.file_searches


# Anthropic Messages.


def search_block(index: int, id: str = "srv_1") -> bytes:
    form = {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(QUERY)}
    return anthropic.block(index, form, delta)


def result_block(index: int, content: object, *, id: str = "srv_1", name: str = "web_search") -> bytes:
    return anthropic.block(index, {"type": f"{name}_tool_result", "tool_use_id": id, "content": content})


def test_a_search_of_messages_starts_with_its_query_and_ends_with_what_may_be_read() -> None:
    events = anthropic.decode(
        anthropic.start(input_tokens=10),
        search_block(0),
        result_block(1, FOUND),
        anthropic.text_block(2, "They won."),
        anthropic.end(output_tokens=5, server_tool_use={"web_search_requests": 1}),
    )
    query = json.dumps(QUERY)
    assert native_in(events) == [
        NativeCallStarted(id="srv_1", name="web_search", arguments=query),
        NativeCallFinished(id="srv_1", name="web_search", arguments=query, result=SHOWN),
    ]
    assert uses(last_usage(events)) == (1, 0, 0)
    assert items_of(events)[1]["content"] == FOUND


def test_code_of_messages_is_counted_by_its_calls_and_shown_under_one_name() -> None:
    run = {"type": "server_tool_use", "id": "s", "name": "bash_code_execution", "input": {"command": "ls"}}
    output = {"type": "bash_code_execution_result", "stdout": "a", "stderr": "", "return_code": 0}
    events = anthropic.decode(
        anthropic.start(input_tokens=10),
        anthropic.block(0, run),
        result_block(1, output, id="s", name="bash_code_execution"),
        anthropic.text_block(2, "Done."),
        anthropic.end(output_tokens=5),
    )
    started, finished = native_in(events)
    assert isinstance(started, NativeCallStarted)
    assert started.name == "code_execution"
    assert json.loads(started.arguments) == {"tool": "bash_code_execution", "command": "ls"}
    assert isinstance(finished, NativeCallFinished)
    assert json.loads(finished.result) == output
    assert not finished.is_error
    assert uses(last_usage(events)) == (0, 1, 0)


def test_a_call_of_messages_that_failed_is_an_error() -> None:
    fault = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    events = anthropic.decode(
        anthropic.start(),
        search_block(0),
        result_block(1, fault),
        anthropic.text_block(2, "x"),
        anthropic.end(),
    )
    finished = native_in(events)[-1]
    assert isinstance(finished, NativeCallFinished)
    assert finished.is_error
    assert "max_uses_exceeded" in finished.result


def test_after_a_pause_the_result_comes_in_the_next_response() -> None:
    paused = anthropic.decode(anthropic.start(), search_block(0), anthropic.end("pause_turn"))
    assert items_of(paused) == [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": QUERY}
    ]
    end = paused[-1]
    assert isinstance(end, ResponseFinished)
    assert end.reason == "pause"
    events = anthropic.decode(
        anthropic.start(), result_block(0, FOUND), anthropic.text_block(1, "x"), anthropic.end()
    )
    assert native_in(events) == [NativeCallFinished(id="srv_1", name="web_search", result=SHOWN)]


def test_the_container_of_messages_is_kept_beside_the_blocks() -> None:
    stop = {
        "stop_reason": "end_turn",
        "container": {"id": "container_1", "expires_at": "2026-11-27T00:00:00Z"},
    }
    run = {"type": "server_tool_use", "id": "s", "name": "bash_code_execution", "input": {}}
    events = anthropic.decode(
        anthropic.start(),
        anthropic.block(0, run),
        result_block(1, {}, id="s", name="bash_code_execution"),
        anthropic.event("message_delta", delta=stop, usage=None) + anthropic.STOP,
    )
    assert items_of(events)[-1] == {"type": "container", "id": "container_1"}


def test_the_search_for_deferred_tools_is_no_native_call() -> None:
    form = {"type": "server_tool_use", "id": "s", "name": "tool_search_tool_bm25", "input": {}}
    events = anthropic.decode(
        anthropic.start(),
        anthropic.block(0, form),
        result_block(1, {}, id="s", name="tool_search"),
        anthropic.end(),
    )
    assert native_in(events) == []


# OpenAI Responses.

SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {
        "type": "search",
        "query": "who won",
        "sources": [{"type": "url", "url": "https://a.example"}],
    },
}
PAGE = {**SEARCH, "id": "ws_2", "action": {"type": "open_page", "url": "https://a.example"}}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(1)",
    "container_id": "c_1",
    "outputs": [{"type": "logs", "logs": "1\n"}],
}
FILES = {
    "type": "file_search_call",
    "id": "fs_1",
    "status": "failed",
    "queries": ["winner"],
    "results": [{"file_id": "f_1", "score": 0.9123, "text": "They."}],
}


def test_native_items_of_responses_start_and_end_once_and_go_back_unchanged() -> None:
    items = [SEARCH, CODE, FILES]
    begun = [{**item, "status": "in_progress"} for item in items]
    parts = [
        part
        for index, (before, item) in enumerate(zip(begun, items, strict=True))
        for part in (responses.added(index, **before), responses.done(index, **item))
    ]
    events = responses.decode(*parts, responses.completed(*items, usage=responses.USAGE))
    assert native_in(events) == [
        NativeCallStarted(id="ws_1", name="web_search"),
        NativeCallFinished(
            id="ws_1",
            name="web_search",
            arguments='{"type": "search", "query": "who won"}',
            result='[{"type": "url", "url": "https://a.example"}]',
        ),
        NativeCallStarted(id="ci_1", name="code_execution"),
        NativeCallFinished(
            id="ci_1",
            name="code_execution",
            arguments='{"code": "print(1)", "container_id": "c_1"}',
            result='[{"type": "logs", "logs": "1\\n"}]',
        ),
        NativeCallStarted(id="fs_1", name="file_search"),
        NativeCallFinished(
            id="fs_1",
            name="file_search",
            arguments='{"queries": ["winner"]}',
            result='[{"file_id": "f_1", "score": 0.9123, "text": "They."}]',
            is_error=True,
        ),
    ]
    assert items_of(events) == items
    assert uses(last_usage(events)) == (1, 1, 1)


def test_a_whole_answer_of_responses_has_the_same_events() -> None:
    events = responses.decode_whole(status="completed", output=[SEARCH, PAGE], usage=responses.USAGE)
    assert [type(event) for event in native_in(events)] == [NativeCallStarted, NativeCallFinished] * 2
    assert uses(last_usage(events)) == (1, 0, 0)


def test_the_searches_that_responses_bills_count() -> None:
    events = responses.decode_whole(
        status="completed",
        output=[SEARCH],
        usage=responses.USAGE,
        tool_usage={"web_search": {"num_requests": 4}, "image_gen": {}},
    )
    assert uses(last_usage(events)) == (4, 0, 0)


def test_the_tokens_of_images_that_responses_makes_count() -> None:
    """Beside those of the model; without details, all that a generator of images gives are images."""
    plain = last_usage(responses.decode_whole(status="completed", output=[], usage=responses.USAGE))
    cases = {
        None: 272,
        '{"image_tokens": 270, "text_tokens": 2}': 270,
        '{"text_tokens": 2}': 272,
    }
    for details, images in cases.items():
        made = {"input_tokens": 50, "output_tokens": 272, "total_tokens": 322}
        made |= {} if details is None else {"output_tokens_details": json.loads(details)}
        events = responses.decode_whole(
            status="completed", output=[], usage=responses.USAGE, tool_usage={"image_gen": made}
        )
        more = last_usage(events) - plain
        assert (more.input_tokens, more.output_tokens, more.image_output_tokens) == (50, 272, images)
        assert more.requests == 0


@pytest.mark.parametrize("action", [None, "search", [], {"type": None}])
def test_an_action_of_another_form_breaks_nothing(action: object) -> None:
    item = {**SEARCH, "action": action}
    events = responses.decode(
        responses.added(0, **item), responses.done(0, **item), responses.completed(item)
    )
    assert len(native_in(events)) == 2
    assert items_of(events) == [item]


# The Gemini API.

GROUNDED = {"webSearchQueries": ["who won", "who won 2026", "who won"]}


def test_server_calls_of_gemini_are_shown_and_go_back() -> None:
    call = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t", "args": {"queries": ["who won"]}}}
    answer = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t", "response": {"found": 1}}}
    usage = {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5}}
    events = gemini.decode(
        gemini.chunk(call, answer, **usage), gemini.chunk({"text": "They won."}, finish="STOP", **usage)
    )
    arguments = '{"queries": ["who won"]}'
    assert native_in(events) == [
        NativeCallStarted(id="t", name="web_search", arguments=arguments),
        NativeCallFinished(id="t", name="web_search", arguments=arguments, result='{"found": 1}'),
    ]
    assert items_of(events) == [call, answer, {"text": "They won."}]
    assert uses(last_usage(events)) == (1, 0, 0)


def test_the_queries_of_gemini_count_even_if_they_come_after_the_usage() -> None:
    usage = {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5}}
    first = gemini.chunk({"text": "They"}, **usage)
    body = gemini.answer({"text": " won."}, finish="STOP")
    body["candidates"][0]["groundingMetadata"] = GROUNDED
    events = gemini.decode(first, gemini.event(body))
    assert uses(last_usage(events)) == (2, 0, 0)
    assert last_usage(events).input_tokens == 10


def test_code_of_gemini_has_no_ids_and_is_shown_in_order() -> None:
    parts = (
        {"executableCode": {"language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    )
    usage = {"usageMetadata": {"promptTokenCount": 10}}
    events = gemini.decode(gemini.chunk(*parts, finish="STOP", **usage))
    ends = [event for event in events if isinstance(event, NativeCallFinished)]
    assert [(end.id, end.is_error) for end in ends] == [
        ("code_execution_1", True),
        ("code_execution_2", False),
    ]
    assert "1/0" in ends[0].arguments
    assert items_of(events) == list(parts)
    assert uses(last_usage(events)) == (0, 2, 0)


def test_a_search_of_files_of_gemini_is_counted() -> None:
    call = {"toolCall": {"toolType": "FILE_SEARCH", "args": {}}}
    answer = {"toolResponse": {"toolType": "FILE_SEARCH"}}
    usage = {"usageMetadata": {"promptTokenCount": 10}}
    events = gemini.decode(gemini.chunk(call, answer, finish="STOP", **usage))
    assert [event.id for event in native_in(events) if isinstance(event, NativeCallFinished)] == [
        "file_search_0"
    ]
    assert uses(last_usage(events)) == (0, 0, 1)


# Chat Completions.

CITED = [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}]


@pytest.mark.parametrize(
    ("annotations", "searches"), [(CITED, 1), ([], 0), (None, 0), ([{"type": "file"}], 0), ("x", 0)]
)
def test_an_answer_of_chat_that_cites_pages_has_searched_once(annotations: object, searches: int) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    events = chat.decode(
        chat.chunk({"content": "They won."}),
        chat.chunk({"annotations": annotations}),
        chat.chunk({}, "stop"),
        chat.event({"choices": [], "usage": usage}),
        chat.DONE,
    )
    assert uses(last_usage(events)) == (searches, 0, 0)
    assert native_in(events) == []
