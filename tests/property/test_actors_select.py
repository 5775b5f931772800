"""Whoever is cancelled when, a select does exactly one of several things, or nothing."""

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
    SelectAmong,
    Send,
    SendNow,
    Turns,
    World,
)

queues = st.integers(0, 2)
counts = st.integers(1, 3)
arms = st.lists(st.tuples(queues, st.booleans()), min_size=1, max_size=3, unique_by=lambda arm: arm[0])
selects = st.builds(SelectAmong, arms=arms.map(tuple), count=counts)
events = st.one_of(
    selects,
    selects,
    st.builds(Send, queue=queues, count=counts),
    st.builds(Receive, queue=queues, count=counts),
    st.builds(SendNow, queue=queues),
    st.builds(SendNow, queue=queues),
    st.builds(ReceiveNow, queue=queues),
    st.builds(Drain, queue=queues),
    st.builds(Cancel, task=st.integers(0, 8)),
    st.builds(Turns, count=counts),
    st.builds(Turns, count=counts),
    st.builds(Close, queue=queues),
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(schedule=st.lists(events, min_size=8, max_size=40))
def test_a_select_sends_or_receives_one_message_and_touches_no_other(
    backend: str, schedule: list[Event]
) -> None:
    queues = [Mailbox[Message](capacity=1), Mailbox[Message](), Channel[Message]()]
    anyio.run(World(queues).play, schedule, backend=backend)
