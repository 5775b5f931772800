"""What the provider wants back unchanged comes out of a response and goes back into the next request."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from nighthawk_async.types.messages import (
    AssistantMessage,
    ProviderContent,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import ModelEvent, ModelRequest
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

from .responses import (
    added,
    arguments,
    arguments_done,
    call,
    calls_in,
    completed,
    created,
    decode,
    decode_whole,
    done,
    end_of,
    event,
    incomplete,
    message,
    reasoning,
    text,
    text_in,
)


def content_of(events: list[ModelEvent]) -> list[Any] | None:
    content = end_of(events).provider_content
    assert content is None or content.protocol == "openai-responses"
    return None if content is None else list(content.items)


def send_back(items: Sequence[Any], **settings: Any) -> list[dict[str, Any]]:
    """The input that follows from one past response with these items."""
    content = ProviderContent(protocol="openai-responses", items=tuple(items))
    request = ModelRequest(
        messages=(AssistantMessage(text="ignored", provider_content=content),), settings=settings
    )
    return json.loads(OpenAIResponsesCodec().encode(request, model_name="m").body)["input"]


def test_a_response_with_reasoning_goes_back_in_its_order_beside_the_results() -> None:
    thought, said, called = reasoning("gAAA", "hm"), message("I look."), call(1, '{"x": 1}')
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
    events = decode(
        created(),
        added(0, **reasoning("gA")),
        done(0, **thought),
        done(1, **search),
        added(2, **message()),
        text("I look.", 2),
        done(2, **said),
        added(3, **call(1)),
        arguments('{"x": 1}', 3),
        done(3, **called),
        completed(thought, search, said, called),
    )
    end = end_of(events)
    assert content_of(events) == [thought, search, said, called]
    turn = AssistantMessage(
        text=text_in(events), tool_calls=tuple(calls_in(events)), provider_content=end.provider_content
    )
    result = ToolResult(call_id=calls_in(events)[0].id, name="look", content=("7",))
    request = ModelRequest(
        messages=(UserMessage(content=("go",)), turn, ToolResultsMessage(results=(result,)))
    )
    encoded = OpenAIResponsesCodec().encode(request, model_name="m")
    assert json.loads(encoded.body)["input"] == [
        {"type": "message", "role": "user", "content": "go"},
        thought,
        search,
        {name: value for name, value in said.items() if name != "id"},
        {name: value for name, value in called.items() if name != "id"},
        {"type": "function_call_output", "call_id": "call_1", "output": "7"},
    ]


def test_only_what_holds_more_than_text_and_calls_is_kept() -> None:
    assert content_of(decode(completed(message("Hi"), call(1, "{}")))) is None
    assert content_of(decode_whole(status="completed", output=[message("Hi")])) is None


@pytest.mark.parametrize(
    "item",
    [
        message("Hi", phase="commentary"),
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
    ],
)
def test_phases_and_whatever_else_is_encrypted_are_kept(item: dict[str, Any]) -> None:
    assert content_of(decode(completed(item))) == [item]


def test_encrypted_content_is_taken_from_the_final_form_alone() -> None:
    output = (message("Hi"),)
    events = decode(
        added(0, **reasoning("partial")), done(0, **reasoning("whole")), done(1, **output[0]), completed()
    )
    assert content_of(events) == [reasoning("whole"), *output]
    events = decode(added(0, **reasoning("partial")), text("Hi", 1), completed())
    assert content_of(events) is None


def test_reasoning_that_only_the_finished_response_lists_takes_its_place() -> None:
    thought, called = reasoning(), call(1, "{}")
    events = decode(added(1, **call(1)), done(1, **called), completed(thought, called))
    assert content_of(events) == [thought, called]


def test_items_that_the_finished_response_does_not_list_stay() -> None:
    events = decode(done(0, **reasoning()), done(1, **message("Hi")), completed(message("Hi")))
    assert content_of(events) == [reasoning(), message("Hi")]


def test_calls_that_were_cut_off_are_not_kept_and_text_is_kept_as_far_as_it_came() -> None:
    events = decode(
        done(0, **reasoning()),
        added(1, **message()),
        text("Hel", 1),
        added(2, **call(1)),
        arguments('{"x', 2),
        incomplete("max_output_tokens", reasoning(), call(1, '{"x', status="incomplete")),
    )
    content = [{"type": "output_text", "text": "Hel", "annotations": []}]
    assert content_of(events) == [reasoning(), {"type": "message", "role": "assistant", "content": content}]


def test_text_is_kept_as_it_was_handed_out() -> None:
    begun = (done(0, **reasoning()), text("Hello", 1))
    for form in (message(), message("Goodbye"), message() | {"content": None}):
        items = content_of(decode(*begun, done(1, **form), completed()))
        assert items is not None
        assert [part["text"] for part in items[1]["content"]] == ["Hello"]
        assert items[1]["id"] == "msg_1"


def test_a_refusal_is_kept_as_a_refusal() -> None:
    refused = event("response.refusal.delta", output_index=1, content_index=0, delta="No.")
    items = content_of(decode(done(0, **reasoning()), refused, completed()))
    assert items is not None
    assert items[1]["content"] == [{"type": "refusal", "refusal": "No."}]
    form = message() | {"content": [{"type": "refusal", "refusal": "No.", "whatever": "else"}]}
    assert content_of(decode(done(0, **reasoning()), refused, done(1, **form), completed())) == [
        reasoning(),
        form,
    ]


def test_calls_are_kept_with_the_ids_and_arguments_under_which_they_were_handed_out() -> None:
    nameless = {"type": "function_call", "name": "look", "arguments": ""}
    events = decode(
        done(0, **reasoning()),
        added(1, **nameless),
        arguments('{"x":1}', 1),
        done(1, **nameless),
        completed(),
    )
    (only,) = calls_in(events)
    assert content_of(events) == [
        reasoning(),
        {"type": "function_call", "call_id": only.id, "name": "look", "arguments": '{"x":1}'},
    ]


def test_a_call_of_which_only_the_arguments_were_done_is_kept() -> None:
    events = decode(
        done(0, **reasoning()),
        added(1, **call(1)),
        arguments_done('{"x": 1}', 1),
        incomplete("max_output_tokens"),
    )
    assert content_of(events) == [
        reasoning(),
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"x": 1}'},
    ]


def test_reasoning_that_led_to_nothing_is_not_kept() -> None:
    assert content_of(decode(done(0, **reasoning()), incomplete("max_output_tokens", reasoning()))) is None
    last = reasoning() | {"id": "rs_2"}
    events = decode(completed(reasoning(), message("Hi"), last))
    assert content_of(events) == [reasoning(), message("Hi")]


def test_what_is_output_only_or_null_does_not_go_back() -> None:
    thought = reasoning("gAAA", status="completed", content=None)
    said = message("Hi", status="completed", phase="commentary")
    called = call(1, "{}", status="completed", namespace=None)
    assert send_back([thought, said, called]) == [
        reasoning("gAAA"),
        {name: value for name, value in message("Hi", phase="commentary").items() if name != "id"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    ]


def test_stored_items_keep_their_ids_by_which_the_provider_finds_them() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    items = send_back([thought, message("Hi", status="completed"), call(1, "{}")], store=True)
    assert items == [thought, message("Hi"), call(1, "{}")]


@pytest.mark.parametrize(("stored", "has_ids"), [(False, False), (True, True), (None, False)])
def test_the_last_word_on_what_is_stored_decides_on_ids(stored: bool | None, has_ids: bool) -> None:
    for setting in (True, False):
        (item,) = send_back([message("Hi")], store=setting, extra_body={"store": stored})
        assert ("id" in item) is has_ids


@pytest.mark.parametrize("encrypted", [None, ""])
def test_reasoning_that_the_provider_could_only_look_up_does_not_go_back(encrypted: str | None) -> None:
    items = send_back([reasoning(encrypted, "summed up"), call(1, "{}")])
    assert [item["type"] for item in items] == ["function_call"]


def test_open_reasoning_goes_back_whole() -> None:
    """Llama.cpp wants its `content` back, and neither a list without it nor an id."""
    thought = reasoning("", content=[{"type": "reasoning_text", "text": "hm"}])
    assert send_back([thought, message("Hi")])[0] == thought


def test_malformed_arguments_go_back_as_valid_json() -> None:
    (item,) = send_back([call(1, "x=1")])
    assert json.loads(item["arguments"]) == {"malformed_arguments": "x=1"}


def test_the_content_of_another_protocol_is_ignored() -> None:
    content = ProviderContent(protocol="anthropic", items=({"type": "thinking"},))
    request = ModelRequest(messages=(AssistantMessage(text="Hi", provider_content=content),))
    body = json.loads(OpenAIResponsesCodec().encode(request, model_name="m").body)
    assert [item["type"] for item in body["input"]] == ["message"]
