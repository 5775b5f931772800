"""What was said is kept whole while it is short; of a long transcript, its beginning and its end."""

from hypothesis import given, strategies as st

from nighthawk_async.observation import TranscriptKind
from nighthawk_async.observe import TaskTree, TranscriptPart
from tests.unit.observe.recorded import begin, only

PART = 64
"""What a part counts besides its text."""

Told = tuple[TranscriptKind, str | None, str]


def transcript_of(told: list[Told], *, max_characters: int) -> tuple[TranscriptPart, ...]:
    tree = TaskTree(max_transcript_characters=max_characters)
    writer = begin(tree, "step")
    for kind, key, text in told:
        writer.write(kind, text, key=key)
    return only(tree).transcript


def parts_of(told: list[Told]) -> list[tuple[str, str | None, str]]:
    """What was told, in parts, without any limit."""
    parts: list[tuple[str, str | None, str]] = []
    for kind, key, text in told:
        if parts and parts[-1][:2] == (kind, key):
            parts[-1] = (kind, key, parts[-1][2] + text)
        else:
            parts.append((kind, key, text))
    return parts


def size(parts: tuple[TranscriptPart, ...]) -> int:
    return sum(PART + len(part.text) for part in parts)


TOLD = st.lists(
    st.tuples(
        st.sampled_from(["text", "reasoning", "tool_call"]),
        st.sampled_from([None, None, "a", "b"]),
        st.text("abcdefghij", max_size=12).flatmap(
            lambda text: st.integers(1, 60).map(lambda times: text * times)
        ),
    ),
    max_size=30,
)


@given(TOLD, st.integers(256, 1_500))
def test_a_transcript_is_its_beginning_and_its_end(told: list[Told], max_characters: int) -> None:
    parts = transcript_of(told, max_characters=max_characters)
    whole = parts_of(told)
    assert size(parts) <= max_characters + PART  # one part may be cut into two
    cuts = [index for index, part in enumerate(parts) if part.is_cut]
    if not cuts:
        assert [(part.kind, part.key, part.text) for part in parts] == whole
        return
    (cut,) = cuts
    beginning, end = parts[:cut], parts[cut:]
    assert size(parts) > max_characters - 700 - 2 * PART  # a part may be left out whole
    assert size(end) <= max_characters // 2
    for part, (kind, key, text) in zip(beginning, whole, strict=False):
        assert (part.kind, part.key) == (kind, key)
        assert part.text == text or (part is beginning[-1] and text.startswith(part.text))
    for part, (kind, key, text) in zip(reversed(end), reversed(whole), strict=False):
        assert (part.kind, part.key) == (kind, key)
        assert part.text == text or (part is end[0] and text.endswith(part.text))


def test_one_long_text_is_cut_in_the_middle() -> None:
    text = "".join(f"{number:05}" for number in range(10_000))
    for told in ([text], [text[start : start + 7] for start in range(0, len(text), 7)]):
        first, second = transcript_of([("text", None, each) for each in told], max_characters=1_000)
        assert first == TranscriptPart(kind="text", text=text[: 500 - PART])
        assert second == TranscriptPart(kind="text", text=text[-(500 - PART) :], is_cut=True)


def test_a_text_that_just_needs_both_halves_is_one_part() -> None:
    text = "x" * (1_000 - 2 * PART)
    assert transcript_of([("text", None, text)], max_characters=1_000) == (
        TranscriptPart(kind="text", text=text),
    )


def test_many_empty_parts_are_bounded_too() -> None:
    told: list[Told] = [("tool_call", f"tool call_{number}", "") for number in range(5_000)]
    parts = transcript_of(told, max_characters=6_400)
    assert len(parts) <= 100
    assert [part.key for part in parts[:2]] == ["tool call_0", "tool call_1"]
    assert parts[-1].key == "tool call_4999"
    assert sum(part.is_cut for part in parts) == 1


def test_parts_that_go_on_are_those_of_one_kind_and_key() -> None:
    told: list[Told] = [
        ("reasoning", None, "hm"),
        ("text", None, "a"),
        ("text", None, ""),
        ("text", None, "b"),
        ("tool_call", "f 1", "{"),
        ("tool_call", "f 1", "}"),
        ("tool_call", "f 2", "{}"),
        ("tool_result", "f 1", "ok"),
    ]
    parts = transcript_of(told, max_characters=65_536)
    assert [(part.kind, part.key, part.text) for part in parts] == parts_of(told)
    assert len(parts) == 5


def test_parts_that_are_complete_are_the_same_objects_in_the_next_view() -> None:
    tree = TaskTree()
    writer = begin(tree, "step")
    writer.write("reasoning", "thinking")
    writer.write("text", "a")
    before = only(tree).transcript
    writer.write("text", "b")
    after = only(tree).transcript
    assert before[0] is after[0]
    assert (before[1].text, after[1].text) == ("a", "ab")
