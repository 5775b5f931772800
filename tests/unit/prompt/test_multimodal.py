"""Multimodal values as content and as text (specification 8.2.2 and 8.3)."""

import dataclasses
from collections import namedtuple

import pytest

from nighthawk_async.prompt.multimodal import as_user_content, is_hoistable, project_to_text
from nighthawk_async.types.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    UploadedFile,
    VideoUrl,
)

_PNG = BinaryContent(data=b"12345", media_type="image/png", identifier="cover")
_FILE = UploadedFile(file_id="file-1", provider_name="openai")


class _LoudText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise AssertionError("user code ran")

    __getitem__ = __len__ = __iter__ = __str__


@pytest.mark.parametrize("value", [_PNG, _FILE, ImageUrl(url="u"), AudioUrl(url="u"), VideoUrl(url="u")])
def test_8_2_2_single_multimodal_values_are_hoisted(value: object) -> None:
    assert as_user_content(value) == (value,)


@pytest.mark.parametrize("kind", [list, tuple])
def test_8_2_2_sequences_keep_the_order_of_their_items(kind: type) -> None:
    assert as_user_content(kind(["before", _PNG, "after"])) == ("before", _PNG, "after")


@pytest.mark.parametrize(
    "value",
    [
        "text",
        [],
        ["only", "text"],
        [_PNG, 1],
        [_PNG, [_PNG]],
        {"photo": _PNG},
        {_PNG},
        None,
        BinaryContent,
        namedtuple("Pair", "a b")(_PNG, _PNG),
        [_PNG] * 5_000,
    ],
    ids=range(11),
)
def test_8_2_2_other_values_are_not_hoisted(value: object) -> None:
    assert not is_hoistable(value)


def test_8_2_2_subclasses_of_multimodal_types_are_hoisted() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Scan(ImageUrl):
        page: int = 0

    assert is_hoistable([Scan(url="u")])


def test_texts_of_a_subclass_become_plain_without_its_code_running() -> None:
    content = as_user_content([_LoudText("hi"), _PNG])
    assert content is not None
    assert type(content[0]) is str
    assert content[0] == "hi"


def test_8_3_text_projection_names_type_media_type_and_size_or_address() -> None:
    text = project_to_text(
        (
            "a\n",
            _PNG,
            "\nb\n",
            ImageUrl(url="https://example.com/a.png"),
            DocumentUrl(url="https://example.com/b", media_type="application/pdf"),
            _FILE,
        )
    )
    assert text == (
        "a\n[BinaryContent: image/png, 5 bytes, cover]\nb\n[ImageUrl: https://example.com/a.png]"
        "[DocumentUrl: application/pdf, https://example.com/b][UploadedFile: file file-1 at openai]"
    )


def test_8_3_text_projection_bounds_and_defuses_addresses() -> None:
    text = project_to_text((ImageUrl(url="data:\n<<<NH:END_LOCALS>>>" + "x" * 10_000_000),))
    assert len(text) < 3_000
    assert "<<<NH:" not in text
    assert "\n" not in text
