"""Events between two views, and events as bytes: pure, so tried with whatever there is."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.asgi.event_stream_encoding import StreamEvent, encode_event, encode_lines
from nighthawk_async.asgi.event_stream_live import events_between
from nighthawk_async.observation import NodeWriter, find_node_writer
from nighthawk_async.observe import NodeView, TaskTree, TranscriptPart
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.sse import ServerSentEventDecoder
from tests.unit.asgi.event_stream_reader import KnownNodes, told_of

KINDS = st.sampled_from(["text", "reasoning", "tool_call", "tool_result", "message", "note"])
KEYS = st.sampled_from([None, "a#1"])

CHANGES = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 9), st.text(max_size=4)),
    st.tuples(
        st.just("write"), st.integers(0, 9), KINDS, st.text(max_size=200), st.sampled_from([None, "a#1"])
    ),
    st.tuples(st.just("write"), st.integers(0, 2), st.just("text"), st.text("ab", max_size=200), st.none()),
    st.tuples(st.just("state"), st.integers(0, 9), st.sampled_from(["waiting", "running", "suspended"])),
    st.tuples(st.just("usage"), st.integers(0, 9), st.integers(0, 3)),
    st.tuples(st.just("retry"), st.integers(0, 9)),
    st.tuples(st.just("outputs"), st.integers(0, 9), st.integers(0, 3)),
    st.tuples(
        st.just("attribute"), st.integers(0, 9), st.text(max_size=3), st.floats() | st.text(max_size=9)
    ),
    st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(["completed", "failed", "cancelled"])),
)


class Story:
    """A tree with small limits, which changes as it is told."""

    def __init__(self) -> None:
        self.tree = TaskTree(
            max_nodes=6, max_finished_trees=2, max_preview_characters=16, max_transcript_characters=400
        )
        with self.tree.recording():
            root = find_node_writer()
        assert root is not None
        self.writers: list[NodeWriter] = [root]

    def go_on(self, change: tuple[Any, ...]) -> None:
        name, number, *details = change
        writer = self.writers[number % len(self.writers)]
        if name == "begin":
            self.writers.append(writer.begin_child("step", *details, inputs={"value": details[0]}))
        elif name == "write":
            writer.write(details[0], details[1], key=details[2])
        elif name == "state":
            writer.change_state(*details)
        elif name == "usage":
            writer.set_usage(Usage(requests=details[0], cost=Decimal(details[0]) / 7))
        elif name == "retry":
            writer.count_retry()
        elif name == "outputs":
            writer.set_outputs({"value": details[0]})
        elif name == "attribute":
            writer.set_attributes({details[0]: details[1]})
        elif writer is not self.writers[0]:
            writer.end(
                *details, outputs={"return": 1}, error=ValueError("no") if "failed" in details else None
            )


def know(view: NodeView | None, known: KnownNodes, new: NodeView) -> None:
    for event in events_between(view, new):
        as_sent = json.loads(json.dumps(event.data))
        known.take(event.name, as_sent)


@given(st.lists(st.lists(CHANGES, max_size=12), max_size=8))
def test_the_events_between_two_views_carried_out_on_the_older_give_the_newer(
    batches: list[list[tuple[Any, ...]]],
) -> None:
    story, known, seen = Story(), KnownNodes(), None
    for batch in [[], *batches]:
        for change in batch:
            story.go_on(change)
        newest = story.tree.snapshot()
        know(seen, known, newest)
        assert known.shown() == told_of(newest)
        seen = newest


PARTS = st.builds(
    TranscriptPart,
    kind=st.sampled_from(["text", "tool_call"]),
    text=st.text("ab", max_size=150),
    key=KEYS,
    is_cut=st.booleans(),
)


@given(st.lists(PARTS, max_size=5), st.lists(PARTS, max_size=5), st.integers(0, 5))
def test_any_transcript_can_become_any_other(
    before: list[TranscriptPart], now: list[TranscriptPart], same: int
) -> None:
    view = TaskTree().snapshot()
    old = replace(view, transcript=tuple(before))
    new = replace(view, transcript=(*before[:same], *now))
    known = KnownNodes()
    know(None, known, old)
    know(old, known, new)
    assert known.shown() == told_of(new)


def test_what_a_long_transcript_loses_is_not_told_again() -> None:
    """Once the middle is left out, each view has another end; what both share is not sent twice."""
    story = Story()
    story.go_on(("begin", 0, "step"))
    words = [f"word {number}, " for number in range(200)]
    for word in words[:100]:
        story.writers[1].write("text", word)
    before = story.tree.snapshot("1")
    assert any(part.is_cut for part in before.transcript)
    for word in words[100:103]:
        story.writers[1].write("text", word)
    events = list(events_between(before, story.tree.snapshot("1")))
    assert [event.name for event in events] == ["cut", "text"]
    assert events[1].data["text"] == "".join(words[100:103])


def test_nothing_new_gives_no_events() -> None:
    view = TaskTree().snapshot()
    assert list(events_between(view, view)) == []


def test_one_change_among_thousands_gives_one_event_for_each_node_that_has_changed() -> None:
    tree = TaskTree()
    with tree.recording():
        root = find_node_writer()
    assert root is not None
    children = [root.begin_child("step", f"step {number}") for number in range(3_000)]
    before = tree.snapshot()
    children[1_234].write("text", "hello")
    (event,) = events_between(before, tree.snapshot())
    assert (event.name, event.data["text"]) == ("text", "hello")


def test_a_changed_state_tells_everything_but_the_transcript() -> None:
    story = Story()
    story.go_on(("begin", 0, "step"))
    story.writers[1].write("text", "secret")
    before = story.tree.snapshot("1")
    story.go_on(("end", 1, "completed"))
    (event,) = events_between(before, story.tree.snapshot("1"))
    assert event.name == "step"
    assert (event.data["state"], event.data["outputs"], event.data["parent_id"]) == (
        "completed",
        {"return": "1"},
        "0",
    )
    assert not {"transcript", "children", "version"} & event.data.keys()


NAMES = st.text(max_size=20).filter(lambda name: not re.search(r"[\r\n\0]", name))
ENCODABLE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.tuples(ENCODABLE, NAMES, NAMES), max_size=5), st.integers(1, 7))
def test_any_text_arrives_in_any_pieces(events: list[tuple[str, str, str]], size: int) -> None:
    stream = b"".join(encode_lines(data, event=name, event_id=each) for data, name, each in events)
    decoder = ServerSentEventDecoder()
    arrived = [event for at in range(0, len(stream), size) for event in decoder.feed(stream[at : at + size])]
    assert [(event.data.decode(), event.event, event.id) for event in arrived] == [
        (re.sub(r"\r\n|\r", "\n", data), name, each) for data, name, each in events
    ]


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_any_json_is_one_line(data: dict[str, Any]) -> None:
    encodable = json.loads(json.dumps(data).encode().decode())
    (event,) = ServerSentEventDecoder().feed(encode_event(StreamEvent(name="text", data=encodable), "a.1"))
    expected = json.loads(json.dumps(encodable, ensure_ascii=False).encode(errors="replace"))
    assert (json.loads(event.data), event.event, event.id) == (expected, "text", "a.1")


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\0b"])
def test_names_that_would_end_a_line_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="neither line ends nor NUL"):
        encode_lines("data", event=name, event_id="1")
    with pytest.raises(ValueError, match="neither line ends nor NUL"):
        encode_lines("data", event="text", event_id=name)


def test_outputs_so_far_are_told_apart_from_the_node() -> None:
    story = Story()
    story.go_on(("begin", 0, "a"))
    before = story.tree.snapshot()
    story.go_on(("outputs", 1, 2))
    story.go_on(("usage", 1, 3))
    told = list(events_between(before, story.tree.snapshot()))
    assert [event.name for event in told] == ["usage", "partial", "usage"]
    assert told[1].data == {"id": story.tree.snapshot().children[0].id, "outputs": {"value": "2"}}
    before = story.tree.snapshot()
    story.go_on(("end", 1, "completed"))
    (told_at_end,) = events_between(before, story.tree.snapshot())
    assert (told_at_end.name, told_at_end.data["outputs"]) == ("step", {"return": "1"})
