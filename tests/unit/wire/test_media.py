import pytest

from nighthawk_async.types.content import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    MultimodalContent,
    UploadedFile,
    VideoUrl,
)
from nighthawk_async.wire.media import describe_media, media_kind


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
