"""However much of whatever is in a response, twice as much of it takes twice the work.

Work is counted in bytecode instructions, so the tests do not depend on how fast the machine is.
"""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from nighthawk_async.models.providers import create_codec
from nighthawk_async.wire.sse import ServerSentEventDecoder

from .repetitions import REPETITIONS, WHOLE_REPETITIONS, event_stream

REPEATED = 100
MOST_GROWTH = 2.1

_STREAMS = [(protocol, what) for protocol, streams in REPETITIONS.items() for what in streams]
_ANSWERS = [(protocol, what) for protocol, answers in WHOLE_REPETITIONS.items() for what in answers]


def instructions(work: Callable[[], object]) -> int:
    """How many bytecode instructions some work takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(make_work: Callable[[int], Callable[[], object]]) -> float:
    """How many times the work grows where what is repeated doubles."""
    instructions(make_work(2))  # makes what is made once; Python 3.13 counts nothing the first time
    return instructions(make_work(2 * REPEATED)) / instructions(make_work(REPEATED))


def decode_stream(protocol: str, stream: bytes, *, chunk_bytes: int) -> None:
    lines, decoder = ServerSentEventDecoder(), create_codec(protocol).decoder()
    for start in range(0, len(stream), chunk_bytes):
        for event in lines.feed(stream[start : start + chunk_bytes]):
            decoder.feed(event)
    for event in lines.finish():
        decoder.feed(event)
    decoder.finish()
    assert decoder.is_ended


def decode_again_and_again(protocol: str, what: str, times: int, *, chunk_bytes: int) -> Callable[[], object]:
    stream = event_stream(REPETITIONS[protocol][what](times))
    return lambda: decode_stream(protocol, stream, chunk_bytes=chunk_bytes)


def test_the_count_of_instructions_tells_quadratic_work() -> None:
    def make_work(times: int) -> Callable[[], object]:
        return lambda: [each for each in range(times) for _ in range(times)]

    assert growth(make_work) > 3.5


@pytest.mark.parametrize(("protocol", "what"), _STREAMS)
def test_a_stream_takes_work_in_proportion_to_what_it_repeats(protocol: str, what: str) -> None:
    assert (
        growth(lambda times: decode_again_and_again(protocol, what, times, chunk_bytes=1_400)) < MOST_GROWTH
    )


@pytest.mark.parametrize("protocol", list(REPETITIONS))
def test_a_stream_that_arrives_byte_by_byte_takes_work_in_proportion_to_its_length(protocol: str) -> None:
    what = next(iter(REPETITIONS[protocol]))

    assert (
        growth(lambda times: decode_again_and_again(protocol, what, times // 4, chunk_bytes=1)) < MOST_GROWTH
    )


@pytest.mark.parametrize(("protocol", "what"), _ANSWERS)
def test_a_whole_answer_takes_work_in_proportion_to_what_it_repeats(protocol: str, what: str) -> None:
    def make_work(times: int) -> Callable[[], object]:
        body = json.dumps(WHOLE_REPETITIONS[protocol][what](times)).encode()
        return lambda: create_codec(protocol).decode_response(body)

    assert growth(make_work) < MOST_GROWTH
