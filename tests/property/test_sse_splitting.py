"""However a stream is cut, the same events come out of it."""

from itertools import pairwise

from hypothesis import given, strategies as st

from nighthawk_async.wire.sse import ServerSentEvent, ServerSentEventDecoder

line_ends = st.sampled_from(["\n", "\r", "\r\n"])
texts = st.text(alphabet=st.sampled_from('ab :\\"{}é🙂\u2028\u2029\u0085\x0b\ufeff\0'), max_size=8)
names = ["data: ", "data:", "data", ": ", "event: ", "id: ", "retry: ", "error: ", "other: ", ""]
lines = st.lists(st.tuples(st.sampled_from(names), texts, line_ends).map("".join), max_size=20)
marks = st.sampled_from(["", "\ufeff"])
streams = st.tuples(marks, lines.map("".join), texts).map(lambda parts: "".join(parts).encode())


def decode(*parts: bytes) -> list[ServerSentEvent]:
    decoder = ServerSentEventDecoder()
    events = [event for part in parts for event in decoder.feed(part)]
    return events + decoder.finish()


def reference(stream: bytes) -> list[ServerSentEvent]:
    """The standard's algorithm over decoded lines; a last event needs no blank line."""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode().replace("\r\n", "\n").replace("\r", "\n")
    events: list[ServerSentEvent] = []
    data: list[str] = []
    kind = identifier = ""
    for line in [*text.split("\n"), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if "\n".join(data):
                events.append(ServerSentEvent(data="\n".join(data).encode(), event=kind, id=identifier))
            data, kind = [], ""
        elif name == "data":
            data.append(value)
        elif name == "error":
            data, kind = [*data, value], "error"
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            identifier = value
    return events


@given(stream=streams)
def test_the_standards_algorithm_gives_the_same_events(stream: bytes) -> None:
    assert decode(stream) == reference(stream)


@given(stream=streams)
def test_a_stream_cut_at_any_place_gives_the_same_events(stream: bytes) -> None:
    whole = decode(stream)
    for place in range(len(stream) + 1):
        assert decode(stream[:place], stream[place:]) == whole
    assert decode(*[stream[place : place + 1] for place in range(len(stream))]) == whole


@given(stream=st.binary(max_size=200), places=st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_cut_anywhere_give_the_same_events_and_no_surprise(
    stream: bytes, places: list[int]
) -> None:
    cuts = [0, *sorted(places), len(stream)]
    parts = [stream[start:end] for start, end in pairwise(cuts)]
    assert decode(*parts) == decode(stream)
