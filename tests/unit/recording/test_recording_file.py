"""The file of a cassette gives back what it was given, and can be read by people."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.recording.exchange import RecordedCall, RecordedError, ResponsePart
from nighthawk_async.recording.file import dump_exchanges, load_exchanges, write_atomically
from nighthawk_async.recording.requests import digest_of
from nighthawk_async.testing import CassetteError, RecordedExchange

PATH = Path("some.yaml")
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    alphabet=" \n\r\t\x85\u2028:#-'\"a1|>&*!%@`"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def exchange_of(request: dict[str, Any], **fields: Any) -> RecordedExchange:
    digest = digest_of("a:model", request)
    return RecordedExchange(step=("m:f:1",), model="a:model", digest=digest, request=request, **fields)


def user_says(text: str) -> dict[str, Any]:
    return {"system_prompt": "Be brief. " * 20, "messages": [{"user": text}]}


@given(st.dictionaries(TEXTS, VALUES, max_size=4), TEXTS, TEXTS)
def test_whatever_json_can_hold_comes_back(settings: dict[str, Any], prompt: str, answer: str) -> None:
    request = {
        "system_prompt": prompt,
        "messages": [{"user": prompt}, {"user": prompt}],
        "settings": settings,
    }
    call = RecordedCall(index=0, id=answer, name="look", arguments=answer)
    parts = (ResponsePart(text=answer), ResponsePart(tool_call=call))
    exchanges = (exchange_of(request, response=parts), exchange_of(request))
    assert load_exchanges(dump_exchanges(exchanges), path=PATH) == exchanges


def test_texts_of_several_lines_stand_as_blocks() -> None:
    text = dump_exchanges(
        [exchange_of(user_says("One:\n  two ✓\nthree"), response=(ResponsePart(text="a\nb"),))]
    )
    lines = [line.strip() for line in text.splitlines()]
    assert "- user: |-" in lines
    assert "two ✓" in lines
    assert "- text: |-" in lines


def test_what_exchanges_share_is_written_once_under_a_name_that_stays() -> None:
    first, second, third = (exchange_of(user_says(text)) for text in ("One", "Two", "Three"))
    text = dump_exchanges([first, second, third])
    assert text.count("system_prompt: &same-") == 1
    assert text.count("system_prompt: *same-") == 2
    changed = dump_exchanges([first, exchange_of(user_says("Other " * 30)), second, third])
    name = text.partition("&")[2].split()[0]
    assert changed.count(name) == 4


def test_what_has_no_value_is_left_out() -> None:
    text = dump_exchanges([exchange_of({"messages": []})])
    assert [word for word in ("null", "usage", "finish", "error", "cancelled", "left") if word in text] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[1, 2", id="no YAML"),
        pytest.param("- 1\n", id="a list"),
        pytest.param("exchanges: []\n", id="no version"),
        pytest.param("version: 99\nexchanges: []\n", id="a version to come"),
        pytest.param("version: 1\nexchanges:\n- step: []\n", id="half an exchange"),
        pytest.param("version: 1\nexchanges: []\nmore: 1\n", id="unknown field"),
        pytest.param("version: 1\nexchanges: !!python/object:os.system []\n", id="an object"),
        *[
            pytest.param(f"version: 1\nexchanges: {'[' * depth}{']' * depth}\n", id=f"{depth} levels")
            for depth in (500, 2_000, 20_000)
        ],
    ],
)
def test_what_is_no_cassette_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(CassetteError, match=r"some\.yaml"):
        load_exchanges(text, path=PATH)


@pytest.mark.parametrize(
    "fields",
    [
        {"error": RecordedError(type="ValueError", message="no")},
        {"error": RecordedError(type="ModelStatusError", message="no status")},
        {"usage": {"requests": "many"}},
        {"consumed": {"requests": "many"}},
        {"finish": {"reason": "unheard of"}},
    ],
)
def test_what_could_not_be_replayed_is_refused_at_once(fields: dict[str, Any]) -> None:
    text = dump_exchanges([exchange_of({"messages": []}, **fields)])
    with pytest.raises(CassetteError, match=r"some\.yaml"):
        load_exchanges(text, path=PATH)


def test_a_request_that_was_changed_by_hand_is_refused_with_what_to_do() -> None:
    text = dump_exchanges([exchange_of(user_says("One"))])
    changed = text.replace("user: One", "user: Two")
    digest = exchange_of(user_says("Two")).digest
    with pytest.raises(CassetteError, match=digest):
        load_exchanges(changed, path=PATH)
    accepted = changed.replace(exchange_of(user_says("One")).digest, digest)
    assert load_exchanges(accepted, path=PATH) == (exchange_of(user_says("Two")),)


def test_writing_makes_folders_and_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.yaml"
    write_atomically(path, "one")
    write_atomically(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    write_atomically(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text(encoding="utf-8") == "one"
    assert list(tmp_path.iterdir()) == [path]
