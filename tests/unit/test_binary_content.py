"""`BinaryContent.from_path`: files as content for a model."""

from pathlib import Path

import pytest

import nighthawk_async as nh


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.png", "image/png"),
        ("A.JPG", "image/jpeg"),
        ("a.webp", "image/webp"),
        ("a.pdf", "application/pdf"),
        ("a.wav", "audio/wav"),
        ("a.mp3", "audio/mpeg"),
        ("a.flac", "audio/flac"),
        ("a.mp4", "video/mp4"),
        ("a.csv", "text/csv"),
        ("a.md", "text/markdown"),
    ],
)
def test_media_types_are_guessed(tmp_path: Path, name: str, media_type: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"bytes")
    assert nh.BinaryContent.from_path(path) == nh.BinaryContent(data=b"bytes", media_type=media_type)
    assert nh.BinaryContent.from_path(str(path)).data == b"bytes"


def test_a_media_type_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "scan"
    path.write_bytes(b"bytes")
    with pytest.raises(ValueError, match="'scan' cannot be guessed; give it"):
        nh.BinaryContent.from_path(path)
    content = nh.BinaryContent.from_path(path, media_type="image/tiff", identifier="page 1")
    assert (content.media_type, content.identifier) == ("image/tiff", "page 1")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        nh.BinaryContent.from_path(tmp_path / "a.png")
