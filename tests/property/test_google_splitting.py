"""However a Gemini response is cut, and in whatever parts it comes, the same model events come out."""

import json
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.messages import ProviderContent
from nighthawk_async.types.model import ModelEvent, ResponseFailed, ResponseFinished, TextDelta
from nighthawk_async.wire.google.codec import GoogleCodec
from tests.property.splitting import check_cuts, check_every_cut, check_forms, pieces, places, sizes
from tests.unit.wire.gemini import call_part, chunk, decode, finished, names_and_arguments, text_in

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
calls = st.lists(
    st.tuples(st.sampled_from(["look", "assign"]), st.dictionaries(st.text(max_size=4), values, max_size=3)),
    max_size=4,
)


def stream_of(text: str, call_list: list[tuple[str, Any]], lengths: list[int]) -> list[bytes]:
    """The chunks in which the endpoint streams a signed response."""
    chunks = [
        chunk({"text": piece}, usageMetadata={"promptTokenCount": 5}) for piece in pieces(text, lengths)
    ]
    for number, (name, args) in enumerate(call_list):
        signature = {"thoughtSignature": "c2ln"} if number == 0 else {}
        chunks.append(chunk(call_part(name, args, id=f"call{number}", **signature)))
    return [*chunks, chunk({"text": "", "thoughtSignature": "bGFzdA=="}, finish="STOP")]


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes, shares=places)
def test_a_response_cut_at_any_bytes_gives_the_same_events(
    text: str, call_list: list[tuple[str, Any]], lengths: list[int], shares: list[float]
) -> None:
    stream = b"".join(stream_of(text, call_list, lengths))
    events = decode(stream)
    assert text_in(events) == text
    assert [(name, json.loads(arguments)) for name, arguments in names_and_arguments(events)] == call_list
    check_cuts(decode, stream, shares)


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes)
def test_what_is_kept_holds_what_was_handed_out(
    text: str, call_list: list[tuple[str, Any]], lengths: list[int]
) -> None:
    content = finished(decode(*stream_of(text, call_list, lengths))).provider_content
    assert isinstance(content, ProviderContent)
    assert "".join(item["text"] for item in content.items if "text" in item) == text
    kept = [item["functionCall"] for item in content.items if "functionCall" in item]
    assert [(each["name"], each["args"]) for each in kept] == call_list


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes)
def test_a_list_of_chunks_gives_the_events_of_the_stream(
    text: str, call_list: list[tuple[str, Any]], lengths: list[int]
) -> None:
    chunks = stream_of(text, call_list, lengths)
    body = b"[" + b",\n".join(each.removeprefix(b"data: ").strip() for each in chunks) + b"]"
    assert GoogleCodec().decode_response(body) == decode(*chunks)


FIXTURE = b"".join(
    [
        chunk({"text": "größe 🙂\u2028"}, usageMetadata={"promptTokenCount": 5}),
        chunk(call_part("look", {'é"': "}"}, id="1", thoughtSignature="c2ln"), finish="STOP"),
    ]
)


def test_the_fixture_holds_what_it_should() -> None:
    events = decode(FIXTURE)
    assert text_in(events) == "größe 🙂\u2028"
    assert [json.loads(arguments) for _, arguments in names_and_arguments(events)] == [{'é"': "}"}]
    assert finished(events).provider_content is not None


def test_a_response_cut_at_every_single_byte_gives_the_same_events() -> None:
    check_every_cut(decode, FIXTURE)


def test_every_form_of_an_event_stream_gives_the_same_content() -> None:
    # The arguments are the text that came, which is another text where it is written with other escapes.
    check_forms(decode_content, FIXTURE)


def decode_content(*parts: bytes) -> list[Any]:
    events = decode(*parts)
    content = finished(events).provider_content
    return [text_in(events), [json.loads(text) for _, text in names_and_arguments(events)], content]


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes, share=st.floats(0, 1))
def test_a_stream_that_breaks_off_is_no_success(
    text: str, call_list: list[tuple[str, Any]], lengths: list[int], share: float
) -> None:
    stream = b"".join(stream_of(text, call_list, lengths)[:-1])
    stream = stream[: int(len(stream) * share)]
    try:
        decode(stream)
    except ModelProtocolError:
        return
    raise AssertionError("a stream without a finish reason is no success")


def only_typed_errors(*parts: bytes) -> list[ModelEvent]:
    try:
        return decode(*parts)
    except ModelProtocolError:
        return []


@given(data=st.binary(max_size=100))
def test_any_bytes_end_in_events_or_in_the_typed_error(data: bytes) -> None:
    events = only_typed_errors(b"data: " + data + b"\n\n", chunk({"text": "a"}, finish="STOP"))
    assert not events or TextDelta(text="a") in events or isinstance(events[-1], ResponseFailed)


KEYS = [
    "candidates",
    "content",
    "parts",
    "text",
    "functionCall",
    "name",
    "id",
    "args",
    "finishReason",
    "usageMetadata",
    "promptFeedback",
    "blockReason",
    "error",
    "message",
    "thought",
    "thoughtSignature",
    "promptTokenCount",
    "index",
    "willContinue",
]
shapes = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.sampled_from(["STOP", "SAFETY", "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=25,
)
odd_chunks = st.builds(
    lambda parts, **fields: {"candidates": [{"content": {"parts": parts}, **fields}]},
    parts=shapes | st.lists(shapes, max_size=2),
    finishReason=shapes,
    index=st.none() | st.integers(0, 1),
)


@given(shape=shapes | odd_chunks)
def test_any_json_ends_in_events_or_in_the_typed_error(shape: Any) -> None:
    data = json.dumps(shape).encode()
    events = only_typed_errors(b"data: " + data + b"\n\n")
    assert not events or isinstance(events[-1], ResponseFinished | ResponseFailed)
    try:
        GoogleCodec().decode_response(data)
    except ModelProtocolError:
        return
