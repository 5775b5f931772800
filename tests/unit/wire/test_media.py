import pytest

from nighthawk_async.types.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    MultimodalContent,
    UploadedFile,
    VideoUrl,
)
from nighthawk_async.wire.media import (
    WEB_SCHEMES,
    bare_media_type,
    describe_media,
    document_name,
    has_scheme,
    media_kind,
)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (ImageUrl(url="u", media_type="application/pdf"), "image"),
        (AudioUrl(url="u"), "audio"),
        (VideoUrl(url="u"), "video"),
        (DocumentUrl(url="u"), "document"),
        (FileUrl(url="u"), "document"),
        (FileUrl(url="u", media_type="Video/MP4"), "video"),
        (BinaryContent(data=b"", media_type="image/png"), "image"),
        (BinaryContent(data=b"", media_type="text/plain"), "document"),
        (UploadedFile(file_id="f", provider_name="p", media_type="audio/wav"), "audio"),
        (UploadedFile(file_id="f", provider_name="p"), "document"),
    ],
)
def test_the_kind_is_that_of_the_class_and_else_of_the_media_type(item: MultimodalContent, kind: str) -> None:
    assert media_kind(item) == kind


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            BinaryContent(data=b"123", media_type="image/png", identifier="a\nb"),
            "image 'a\\nb' image/png, 3 bytes",
        ),
        (ImageUrl(url="http://x/y"), "image at http://x/y"),
        (DocumentUrl(url="http://x", media_type="text/plain"), "document text/plain at http://x"),
        (
            UploadedFile(file_id="f", provider_name="google", media_type="video/mp4"),
            "video video/mp4 uploaded to google as f",
        ),
    ],
)
def test_a_description_names_kind_type_and_whereabouts(item: MultimodalContent, words: str) -> None:
    assert describe_media(item) == words


def test_a_description_is_one_bounded_line_whatever_the_url_holds() -> None:
    words = describe_media(ImageUrl(url="data:image/png;base64,\n\x00" + "A" * 10_000_000))
    assert len(words) < 250
    assert words.isprintable()
    assert "\n" not in words


def test_a_bare_media_type_has_no_parameters() -> None:
    assert bare_media_type(" Text/Plain ; charset=utf-8") == "text/plain"


@pytest.mark.parametrize(
    ("identifier", "media_type", "name"),
    [
        ("plan.pdf", "application/pdf", "plan.pdf"),
        (None, "application/PDF; x=y", "document.pdf"),
        (None, "", "document.bin"),
    ],
)
def test_a_document_without_a_name_is_named_after_its_type(
    identifier: str | None, media_type: str, name: str
) -> None:
    assert document_name(BinaryContent(data=b"", media_type=media_type, identifier=identifier)) == name


@pytest.mark.parametrize(
    ("url", "is_web"),
    [
        ("https://x/y", True),
        ("HTTP://x", True),
        ("file:///etc/passwd", False),
        ("data:image/png;base64,AA==", False),
        ("gs://bucket/x", False),
        ("picture.png", False),
        ("http", False),
        ("", False),
    ],
)
def test_only_web_urls_are_such_as_every_provider_fetches(url: str, is_web: bool) -> None:
    assert has_scheme(ImageUrl(url=url), WEB_SCHEMES) is is_web
