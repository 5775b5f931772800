"""The files of the page, from a fixed table.

They are part of the package; nothing is looked up in a file system by what a request says.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ..protocol import AsgiScope, header_values
from .responses import Response

__all__ = ["PAGE", "STATIC_FILES", "static_response"]

PAGE = "index.html"

_STYLE = "text/css; charset=utf-8"
_SCRIPT = "text/javascript; charset=utf-8"

_NAMES: Mapping[str, tuple[str, ...]] = {
    "text/html; charset=utf-8": (PAGE,),
    "image/svg+xml": ("icon.svg",),
    _STYLE: ("theme.css", "layout.css", "tree.css", "details.css"),
    _SCRIPT: (
        "actions.js",
        "app.js",
        "connection.js",
        "details.js",
        "dialogs.js",
        "dom.js",
        "event_stream.js",
        "facts.js",
        "filters.js",
        "format.js",
        "keyboard.js",
        "question_form.js",
        "rows.js",
        "row_elements.js",
        "search.js",
        "states.js",
        "store.js",
        "summary.js",
        "tables.js",
        "theme.js",
        "token.js",
        "transcript.js",
        "tree_view.js",
        "waterfall.js",
    ),
}

STATIC_FILES: Mapping[str, str] = {
    name: content_type for content_type, names in _NAMES.items() for name in names
}
"""The files, by name, and of which type they are."""


def static_response(name: str, asgi_scope: AsgiScope) -> Response:
    """The response that has a file, or says that the browser has it already.

    Args:
        name: The name of the file, one of `STATIC_FILES`.
        asgi_scope: The request.
    """
    body, tag = _load(name)
    headers = {"etag": tag, "cache-control": "no-cache"}
    known = ",".join(header_values(asgi_scope, b"if-none-match"))
    if tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status=304, headers=headers)
    return Response(headers={**headers, "content-type": STATIC_FILES[name]}, body=body)


@cache
def _load(name: str) -> tuple[bytes, str]:
    """A file, and what changes whenever the file does."""
    body = (files(__name__.rpartition(".")[0]) / "static" / name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
