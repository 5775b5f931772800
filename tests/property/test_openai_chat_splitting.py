"""However a response is cut, and however its server streams it, the same model events come out."""

import json
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.model import ResponseFinished, TextDelta, ToolCallCompleted
from tests.property.splitting import check_cuts, check_every_cut, check_forms, pieces, places, sizes
from tests.unit.wire.chat import DONE, call_chunk, chunk, decode, fragment, names_and_arguments, text_in

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=4), values, max_size=3).map(json.dumps)
styles = st.sampled_from(["indexed", "always zero", "no index", "no ids"])
calls = st.lists(st.tuples(st.sampled_from(["look", "assign"]), arguments), max_size=4)


def stream_of(call_list: list[tuple[str, str]], lengths: list[int], *, style: str) -> list[bytes]:
    """The chunks in which a server of that style streams calls."""
    chunks: list[bytes] = []
    for position, (name, text) in enumerate(call_list):
        keys: dict[str, Any] = {
            "indexed": {"index": position},
            "always zero": {"index": 0},
            "no index": {},
            "no ids": {"index": position},
        }[style]
        first = keys if style == "no ids" else {**keys, "id": f"call{position}"}
        chunks.append(call_chunk(fragment("", name=name, **first)))
        chunks += [call_chunk(fragment(piece, **keys)) for piece in pieces(text, lengths)]
    return [*chunks, chunk({}, "tool_calls"), DONE]


@given(
    call_list=calls, lengths=sizes, style=st.sampled_from(["indexed", "always zero", "no index", "no ids"])
)
def test_every_style_of_streaming_gives_the_same_calls(
    call_list: list[tuple[str, str]], lengths: list[int], style: str
) -> None:
    events = decode(*stream_of(call_list, lengths, style=style))
    assert names_and_arguments(events) == call_list
    indexes = [event.index for event in events if isinstance(event, ToolCallCompleted)]
    assert indexes == list(range(len(call_list)))
    assert events[-1] == ResponseFinished(reason="tool_calls" if call_list else "stop")


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes, shares=places)
def test_a_response_cut_at_any_bytes_gives_the_same_events(
    text: str, call_list: list[tuple[str, str]], lengths: list[int], shares: list[float]
) -> None:
    chunks = [chunk({"content": piece}) for piece in pieces(text, lengths)]
    stream = b"".join(chunks + stream_of(call_list, lengths, style="indexed"))
    assert text_in(decode(stream)) == text
    check_cuts(decode, stream, shares)


FIXTURE = chunk({"content": "größe 🙂\u2028"}) + b"".join(
    stream_of([("look", '{"é\\"": "}"}')], [3], style="indexed")
)


def test_the_fixture_holds_what_it_should() -> None:
    assert names_and_arguments(decode(FIXTURE)) == [("look", '{"é\\"": "}"}')]


def test_a_response_cut_at_every_single_byte_gives_the_same_events() -> None:
    check_every_cut(decode, FIXTURE)


def test_every_form_of_an_event_stream_gives_the_same_events() -> None:
    check_forms(decode, FIXTURE)


@given(call_list=calls, lengths=sizes, share=st.floats(0, 1))
def test_a_stream_that_breaks_off_completes_no_call_that_is_cut(
    call_list: list[tuple[str, str]], lengths: list[int], share: float
) -> None:
    stream = b"".join(stream_of(call_list, lengths, style="indexed")[:-2])
    stream = stream[: int(len(stream) * share)]
    try:
        decode(stream)
    except ModelProtocolError:
        return
    raise AssertionError("a stream without its terminal event is no success")


@given(data=st.binary(max_size=100))
def test_any_bytes_end_in_events_or_in_the_typed_error(data: bytes) -> None:
    try:
        events = decode(b"data: " + data + b"\n\n", chunk({"content": "a"}, "stop"), DONE)
    except ModelProtocolError:
        return
    assert TextDelta(text="a") in events or not isinstance(events[-1], ResponseFinished)
