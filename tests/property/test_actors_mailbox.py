"""Whoever is cancelled when, a mailbox or channel neither loses a message nor delivers one twice."""

import anyio
import pytest
from hypothesis import given, strategies as st

from nighthawk_async.actors import Channel, Mailbox
from tests.property.message_schedules import (
    Cancel,
    Close,
    Drain,
    Event,
    Message,
    Receive,
    ReceiveNow,
    Send,
    SendNow,
    Turns,
    World,
)

counts = st.integers(1, 4)
events = st.one_of(
    st.builds(Send, queue=st.just(0), count=counts),
    st.builds(Receive, queue=st.just(0), count=counts),
    st.builds(SendNow, queue=st.just(0)),
    st.builds(ReceiveNow, queue=st.just(0)),
    st.builds(Drain, queue=st.just(0)),
    st.builds(Cancel, task=st.integers(0, 8)),
    st.builds(Cancel, task=st.integers(0, 8)),
    st.builds(Turns, count=counts),
    st.builds(Turns, count=counts),
    st.builds(Close, queue=st.just(0)),
)
schedules = st.lists(events, min_size=8, max_size=40)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(schedule=schedules, capacity=st.sampled_from([1, 2, 5, None]))
def test_a_mailbox_delivers_each_message_exactly_once(
    backend: str, schedule: list[Event], capacity: int | None
) -> None:
    anyio.run(World([Mailbox[Message](capacity=capacity)]).play, schedule, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(schedule=schedules)
def test_a_channel_hands_each_message_over_exactly_once(backend: str, schedule: list[Event]) -> None:
    anyio.run(World([Channel[Message]()]).play, schedule, backend=backend)
