"""Paths, methods and queries of requests to the dashboard. Pure."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import parse_qs, quote

from ..problems import Problem
from ..protocol import AsgiScope
from .request import RefusalError, bad_request
from .responses import Response

Default = TypeVar("Default", int, None)

_MAX_DIGITS = 9


def path_below(asgi_scope: AsgiScope) -> str | None:
    """Return the path below the dashboard's, without its leading slash; None when there is no slash at all.

    Some servers and frameworks keep the mount path in the path, others remove it.

    Args:
        asgi_scope: The request.
    """
    path: str = asgi_scope["path"]
    root: str = (asgi_scope.get("root_path") or "").rstrip("/")
    if root and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    return path[1:] if path.startswith("/") else None


def redirect_below(asgi_scope: AsgiScope) -> Response:
    """Return the redirect from the dashboard's path without a trailing slash to the one with it.

    It names only the last segment of the path, so it works behind proxies that change the segments before it.

    Args:
        asgi_scope: The request.
    """
    whole = asgi_scope["path"] or asgi_scope.get("root_path") or ""
    last = quote(whole.rpartition("/")[2], safe="")
    return Response(status=307, headers={"location": f"./{last}/" if last else "./"})


def check_method(asgi_scope: AsgiScope, *allowed: str) -> None:
    """Refuse other methods.

    Args:
        asgi_scope: The request.
        allowed: The allowed methods.

    Raises:
        RefusalError: The method is another one.
    """
    if asgi_scope["method"] not in allowed:
        problem = Problem(
            status=405,
            name="method-not-allowed",
            title="The method is not allowed",
            detail="This path does not take requests of that method.",
        )
        raise RefusalError(problem, {"allow": ", ".join(allowed)})


def query_of(asgi_scope: AsgiScope) -> Mapping[str, list[str]]:
    """Return the values of the query, by name.

    Args:
        asgi_scope: The request.

    Raises:
        RefusalError: The query has too many values.
    """
    try:
        return parse_qs(asgi_scope.get("query_string", b"").decode("latin-1"), max_num_fields=20)
    except ValueError:
        raise RefusalError(bad_request("The query has too many parts.")) from None


def whole_number(
    query: Mapping[str, list[str]], name: str, default: Default, *, least: int, most: int
) -> int | Default:
    """Return a number of the query.

    Args:
        query: The query.
        name: The name of the number.
        default: The value when the number is missing.
        least: The minimum; less is refused.
        most: The maximum; more is reduced to it.

    Raises:
        RefusalError: The value is not a whole number, or is less than the minimum.
    """
    values = query.get(name)
    if values is None:
        return default
    text = values[0]
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) >= least):
        raise RefusalError(bad_request(f"{name} is a whole number of at least {least}."))
    return min(int(text), most)
