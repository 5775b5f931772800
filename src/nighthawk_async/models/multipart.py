"""Forms with a file, as uploads send them. Pure."""

from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct


class Form(Struct, frozen=True, kw_only=True):
    """A form as the parts of a request.

    Args:
        headers: The headers.
        body: The body.
    """

    headers: Mapping[str, str]
    body: bytes


def multipart(fields: Mapping[str, str], file_name: str, media_type: str, content: bytes) -> Form:
    """A form of the media type `multipart/form-data` with a file in its field `file`.

    Args:
        fields: The other fields.
        file_name: The name of the file.
        media_type: The media type of the file.
        content: The file.
    """
    boundary = f"nighthawk-{sha256(content).hexdigest()}"
    parts = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{_quoted(file_name)}"\r\n'
        f"content-type: {media_type}\r\n\r\n"
    )
    return Form(
        headers={"content-type": f"multipart/form-data; boundary={boundary}", "accept": "application/json"},
        body=b"".join(("".join(parts).encode(), content, f"\r\n--{boundary}--\r\n".encode())),
    )


def _quoted(file_name: str) -> str:
    """A file name as browsers write it in a form."""
    return file_name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
