import json

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.wire.json_text import JsonObjectScanner

json_objects = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet=st.sampled_from('ab"\\{}[] é\n')),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
)


@given(value=json_objects, sizes=st.lists(st.integers(1, 7), min_size=1), trailing=st.text(max_size=5))
def test_an_object_is_complete_exactly_at_its_closing_brace(
    value: dict[str, object], sizes: list[int], trailing: str
) -> None:
    text = json.dumps(value)
    scanner = JsonObjectScanner()
    taken = position = 0
    whole = text + trailing
    step = 0
    while position < len(whole):
        size = sizes[step % len(sizes)]
        assert scanner.is_complete == (taken == len(text))
        taken += scanner.feed(whole[position : position + size])
        position += size
        step += 1
    assert taken == len(text)
    assert scanner.is_complete


@pytest.mark.parametrize("text", ["[1]", '"{}"', "12", "null", "x {}"])
def test_what_is_no_object_is_never_complete(text: str) -> None:
    scanner = JsonObjectScanner()
    assert scanner.feed(text) == len(text)
    assert not scanner.is_complete


def test_leading_space_belongs_to_the_object() -> None:
    scanner = JsonObjectScanner()
    assert scanner.feed(" \n") == 2
    assert scanner.feed("{} {}") == 2
    assert scanner.is_complete


def test_an_escape_cut_in_two_is_still_an_escape() -> None:
    scanner = JsonObjectScanner()
    for piece in ['{"a":"\\', '"', "}", "\\", "\\", '"']:
        scanner.feed(piece)
    assert not scanner.is_complete
    scanner.feed("}")
    assert scanner.is_complete
