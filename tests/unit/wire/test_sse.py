import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.wire.sse import ServerSentEvent, ServerSentEventDecoder


def events_of(*parts: bytes) -> list[ServerSentEvent]:
    decoder = ServerSentEventDecoder()
    events = [event for part in parts for event in decoder.feed(part)]
    return events + decoder.finish()


def data_of(*parts: bytes) -> list[bytes]:
    return [event.data for event in events_of(*parts)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_ending_of_the_standard_ends_a_line(end: bytes) -> None:
    assert data_of(b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end) == [b"a\nb", b"c"]


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    decoder = ServerSentEventDecoder()
    assert decoder.feed(b"data: a\r\n\r") == [ServerSentEvent(data=b"a")]
    assert decoder.feed(b"\ndata: b\n") == []
    assert decoder.feed(b"\n") == [ServerSentEvent(data=b"b")]


def test_a_crlf_cut_in_two_is_one_line_ending() -> None:
    assert data_of(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_what_splits_text_lines_does_not_split_an_event(separator: str) -> None:
    text = f'{{"text":"a{separator}b"}}'
    assert data_of(f"data: {text}\n\n".encode()) == [text.encode()]


def test_a_character_cut_in_two_is_whole_again() -> None:
    stream = "data: größe 🙂\n\n".encode()
    for place in range(len(stream)):
        assert data_of(stream[:place], stream[place:]) == ["größe 🙂".encode()]


def test_a_byte_order_mark_at_the_start_is_ignored() -> None:
    assert data_of(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [b"a"]
    assert data_of(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]


def test_comments_are_ignored() -> None:
    assert data_of(b": keep-alive\n\n: again\ndata: a\n:\n\n") == [b"a"]


def test_only_one_space_after_the_colon_is_left_out() -> None:
    assert data_of(b"data:a\ndata: b\ndata:  c\n\n") == [b"a\nb\n c"]


def test_empty_data_makes_no_event_and_an_empty_line_of_data_is_kept() -> None:
    assert data_of(b"data:\n\ndata: \n\ndata\n\n") == []
    assert data_of(b"data: a\ndata\ndata: b\n\n") == [b"a\n\nb"]


def test_type_and_id_travel_with_the_event() -> None:
    events = events_of(b"event: ping\nid: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n")
    assert events == [
        ServerSentEvent(data=b"a", event="ping", id="7"),
        ServerSentEvent(data=b"b", id="7"),
        ServerSentEvent(data=b"c"),
    ]


def test_the_type_of_an_event_without_data_is_forgotten() -> None:
    assert events_of(b"event: ping\n\ndata: a\n\n") == [ServerSentEvent(data=b"a")]


def test_an_id_with_a_null_is_ignored() -> None:
    assert events_of(b"id: 1\nid: 2\x003\ndata: a\n\n") == [ServerSentEvent(data=b"a", id="1")]


def test_the_reconnection_time_is_kept_when_it_is_a_number() -> None:
    decoder = ServerSentEventDecoder()
    decoder.feed(b"retry: 1500\n")
    decoder.feed(b"retry: soon\n")
    assert decoder.retry_milliseconds == 1500


def test_the_last_event_needs_no_blank_line_and_no_line_ending() -> None:
    assert data_of(b"data: a\n\ndata: b") == [b"a", b"b"]
    assert data_of(b"data: a\n\ndata: b\n") == [b"a", b"b"]


def test_nothing_is_left_after_the_end() -> None:
    decoder = ServerSentEventDecoder()
    decoder.feed(b"data: a")
    assert len(decoder.finish()) == 1
    assert decoder.finish() == []


def test_an_error_line_of_an_older_server_is_an_event_called_error() -> None:
    assert events_of(b'error: {"message":"no"}\n\n') == [
        ServerSentEvent(data=b'{"message":"no"}', event="error")
    ]


def test_what_is_no_event_stream_is_kept_for_the_error_message() -> None:
    decoder = ServerSentEventDecoder()
    assert decoder.feed(b"<html>\n<h1>Bad gateway</h1>\n\n") == []
    assert decoder.finish() == []
    assert decoder.stray == b"<html>\n<h1>Bad gateway</h1>"


def test_little_is_kept_of_much_that_is_no_event_stream() -> None:
    decoder = ServerSentEventDecoder()
    for _ in range(1_000):
        decoder.feed(b"x" * 10_000 + b"\n")
    assert len(decoder.stray) == 4 * 1024


def test_a_line_beyond_the_bound_is_refused_before_it_ends() -> None:
    decoder = ServerSentEventDecoder(max_event_bytes=100)
    decoder.feed(b"data: " + b"x" * 90)
    with pytest.raises(ModelProtocolError, match="over 100 bytes"):
        decoder.feed(b"x" * 90)


def test_an_event_of_many_lines_beyond_the_bound_is_refused() -> None:
    decoder = ServerSentEventDecoder(max_event_bytes=100)
    with pytest.raises(ModelProtocolError, match="over 100 bytes"):
        decoder.feed(b"data: xxxxxxxx\n" * 100)


def test_many_events_together_may_be_larger_than_the_bound() -> None:
    decoder = ServerSentEventDecoder(max_event_bytes=100)
    assert len(decoder.feed(b"data: xxxxxxxx\n\n" * 100)) == 100


def test_empty_pieces_change_nothing() -> None:
    assert data_of(b"", b"data: a\r", b"", b"\n\r\n", b"") == [b"a"]
