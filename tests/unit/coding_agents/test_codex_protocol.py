"""The messages of Codex, on lines that version 0.171.0 wrote, and on nonsense."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.coding_agents.codex_calls import CallOrder
from nighthawk_async.coding_agents.codex_protocol import (
    ApprovalRequest,
    CallAnnounced,
    CallAnswered,
    NativeItem,
    NativeOutput,
    OtherRequest,
    Response,
    ResponseCompleted,
    Retry,
    ServerToolRequest,
    TextAdded,
    ToolCallRequest,
    TurnCompleted,
    TurnFailure,
    decision_response,
    decode,
    notification,
    refusal,
    request,
    tool_response,
)
from nighthawk_async.types.usage import Usage

LINES = Path(__file__).with_name("codex_lines.jsonl").read_text(encoding="utf-8").splitlines()


def recorded(part: str) -> list[Any]:
    """The messages of one part of the recording."""
    lines = [json.loads(line) for line in LINES]
    return [decode(json.dumps(each["line"]).encode()) for each in lines if each["in"] == part]


def test_a_turn_with_calls_is_understood() -> None:
    messages = recorded("calls")
    texts = [(each.kind, each.text) for each in messages if isinstance(each, TextAdded)]
    assert texts == [("reasoning", "Hm."), ("text", "Let me look."), ("text", "done")]
    assert [each.usage for each in messages if isinstance(each, ResponseCompleted)] == [
        Usage(requests=1, input_tokens=10, output_tokens=5)
    ] * 2
    assert isinstance(messages[-1], TurnCompleted)
    assert (messages[-1].status, messages[-1].failure) == ("completed", None)


def test_recorded_calls_begin_in_order() -> None:
    order, begun = CallOrder[ToolCallRequest](), list[ToolCallRequest]()
    for message in recorded("calls"):
        match message:
            case CallAnnounced():
                begun += order.announced(message.call_id)
            case ToolCallRequest():
                begun += order.requested(message.call_id, message)
            case CallAnswered():
                begun += order.answered(message.call_id)
            case ResponseCompleted():
                begun += order.response_completed()
            case _:
                pass
    assert [(each.call_id, each.tool, json.loads(each.arguments)) for each in begun] == [
        (f"call_{number}", "nh_eval", {"expression": str(number)}) for number in range(3)
    ]


def test_a_command_is_understood_with_its_output_and_exit_code() -> None:
    messages = recorded("command")
    (asked,) = (each for each in messages if isinstance(each, ApprovalRequest))
    assert asked.tool == "shell"
    assert "echo hi" in asked.arguments["command"]
    assert "".join(each.text for each in messages if isinstance(each, NativeOutput)) == "hi\n"
    items = [each for each in messages if isinstance(each, NativeItem)]
    assert [(each.kind, each.has_ended) for each in items] == [
        ("commandExecution", False),
        ("commandExecution", True),
    ]
    assert items[1].call_id == asked.item_id
    assert (items[1].status, items[1].details["exitCode"]) == ("failed", 3)


def test_a_patch_is_understood_with_its_changes() -> None:
    messages = recorded("patch")
    (asked,) = (each for each in messages if isinstance(each, ApprovalRequest))
    ended = next(each for each in messages if isinstance(each, NativeItem) and each.has_ended)
    assert (asked.tool, ended.kind, ended.status) == ("apply_patch", "fileChange", "completed")
    assert [each["path"] for each in ended.details["changes"]] == ["/repo/hello.txt"]


def test_a_call_of_a_script_was_not_announced() -> None:
    messages = recorded("script")
    (asked,) = (each for each in messages if isinstance(each, ToolCallRequest))
    announced = [(each.name, each.call_id) for each in messages if isinstance(each, CallAnnounced)]
    assert announced == [("exec", "cx1")]
    assert asked.call_id != "cx1"


def test_a_failed_turn_has_a_reason() -> None:
    ended = recorded("failed")[-1]
    assert isinstance(ended, TurnCompleted)
    assert ended.status == "failed"
    assert ended.failure is not None
    assert "no such model" in ended.failure.message


@pytest.mark.parametrize(
    ("info", "kind", "status"),
    [
        (None, "", None),
        ("serverOverloaded", "serverOverloaded", None),
        ({"httpConnectionFailed": {"httpStatusCode": 502}}, "httpConnectionFailed", 502),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "httpConnectionFailed", None),
        ({"somethingNew": None}, "somethingNew", None),
        ({}, "", None),
    ],
)
def test_the_kind_of_a_failure_is_read_in_all_forms(info: Any, kind: str, status: int | None) -> None:
    error = {"message": "no", "codexErrorInfo": info, "additionalDetails": "more"}
    params = {"threadId": "t", "error": error, "willRetry": True}
    message = decode(json.dumps({"method": "error", "params": params}).encode())
    failure = TurnFailure(message="no (more)", kind=kind, http_status=status)
    assert message == Retry(thread_id="t", failure=failure)


def test_errors_results_and_unknown_requests_are_told_apart() -> None:
    assert decode(b'{"id": 1, "result": {"a": 1}}') == Response(id=1, result={"a": 1})
    assert decode(b'{"id": 1, "result": null}') == Response(id=1, result={})
    refused = decode(b'{"id": 1, "error": {"code": -32600, "message": "no"}}')
    assert isinstance(refused, Response)
    assert refused.error is not None
    assert refused.error.message == "no"
    params: dict[str, Any] = {"threadId": "t", "itemId": "k1", "questions": []}
    line = {"id": "x", "method": "item/tool/requestUserInput", "params": params}
    other = OtherRequest(id="x", method="item/tool/requestUserInput")
    assert decode(json.dumps(line).encode()) == other
    params["questions"] = [{"id": "mcp_tool_call_approval_k1"}]
    confirmed = ServerToolRequest(
        id="x", thread_id="t", call_id="k1", question_id="mcp_tool_call_approval_k1"
    )
    assert decode(json.dumps(line).encode()) == confirmed
    params["itemId"] = "k2"
    assert decode(json.dumps(line).encode()) == other
    assert decode(b'{"method": "brand/new", "params": {"a": [1]}}') is None


@pytest.mark.parametrize(
    "line",
    [b"", b"hello", b"[]", b"{}", b'{"id": 1}', b'{"method": 5}', b'{"id": 1, "result": 5}', b"\xff\xfe"],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(LINES), st.data())
def test_a_changed_line_is_a_message_or_refused(line: str, data: st.DataObject) -> None:
    message: Any = json.loads(line)["line"]
    here = message
    for _ in range(data.draw(st.integers(1, 4))):
        if not isinstance(here, dict) or not here:
            break
        name = data.draw(st.sampled_from(sorted(here)))
        if data.draw(st.booleans()):
            here[name] = data.draw(JSON)
            break
        here = here[name]
    with suppress(ValueError):
        decode(json.dumps(message).encode())


def test_lines_that_are_sent_are_the_protocols() -> None:
    sent = [
        request(1, "turn/start", {"threadId": "t"}),
        notification("initialized"),
        tool_response(2, [{"type": "inputText", "text": "ü\n"}], is_error=True),
        decision_response(3, is_allowed=False),
        refusal("x", "item/tool/requestUserInput"),
    ]
    assert [json.loads(line) for line in sent] == [
        {"id": 1, "method": "turn/start", "params": {"threadId": "t"}},
        {"method": "initialized"},
        {"id": 2, "result": {"contentItems": [{"type": "inputText", "text": "ü\n"}], "success": False}},
        {"id": 3, "result": {"decision": "decline"}},
        {"id": "x", "error": {"code": -32601, "message": "item/tool/requestUserInput is not supported"}},
    ]
    assert not any(b"\n" in line for line in sent)
