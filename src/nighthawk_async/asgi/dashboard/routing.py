"""Routing of requests: path below the dashboard, method, query. Pure."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import parse_qs, quote

from ..problems import Problem
from ..protocol import AsgiScope
from .refusals import RefusalError, bad_request
from .responses import Response

__all__ = ["check_method", "path_below", "query_of", "redirect_below", "whole_number"]

Default = TypeVar("Default", int, None)

_MAX_DIGITS = 9


def path_below(asgi_scope: AsgiScope) -> str | None:
    """The path below that of the dashboard, without a slash at its beginning; None for no slash at all.

    Servers and frameworks leave the path under which an application is mounted in the path, or take it out.

    Args:
        asgi_scope: The request.
    """
    path: str = asgi_scope["path"]
    root: str = (asgi_scope.get("root_path") or "").rstrip("/")
    if root and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    return path[1:] if path.startswith("/") else None


def redirect_below(asgi_scope: AsgiScope) -> Response:
    """The response that leads from the dashboard's path without a slash to that with one.

    It names the last part of the path only, so it holds behind proxies that change what is before it.

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
        allowed: The methods that make sense.

    Raises:
        RefusalError: It is another one.
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
    """The values of the query, by name.

    Args:
        asgi_scope: The request.

    Raises:
        RefusalError: It has too many of them.
    """
    try:
        return parse_qs(asgi_scope.get("query_string", b"").decode("latin-1"), max_num_fields=20)
    except ValueError:
        raise RefusalError(bad_request("The query has too many parts.")) from None


def whole_number(
    query: Mapping[str, list[str]], name: str, default: Default, *, least: int, most: int
) -> int | Default:
    """A number of the query.

    Args:
        query: The query.
        name: The name of the number.
        default: What holds when it is not there.
        least: The least that makes sense.
        most: The most that is given; more is taken for this.

    Raises:
        RefusalError: It is no whole number, or less.
    """
    values = query.get(name)
    if values is None:
        return default
    text = values[0]
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) >= least):
        raise RefusalError(bad_request(f"{name} is a whole number of at least {least}."))
    return min(int(text), most)
