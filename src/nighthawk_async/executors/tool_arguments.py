"""The arguments of a tool call as the model wrote them: their size, their parsed form. Floor 4."""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

import msgspec

from ..errors import HookError, ToolBoundaryError
from ..types.messages import ToolCall

__all__ = ["canonical_arguments", "check_size", "excess_of", "parsed_arguments", "with_arguments"]

_QUOTED_CHARACTERS = 40
_WRITE_AN_OBJECT = "Call the tool again with one JSON object."


def check_size(call: ToolCall, max_bytes: int) -> None:
    """Refuse arguments that are too long to be looked at.

    Args:
        call: The call.
        max_bytes: The number of bytes that the arguments may have in UTF-8.

    Raises:
        ToolBoundaryError: They have more.
    """
    excess = excess_of(call.arguments, max_bytes)
    if excess is not None:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {call.name} {excess}",
            guidance="Make the call smaller, or split it; refer to values by their names instead of writing "
            "them out.",
        )


def excess_of(text: str, max_bytes: int) -> str | None:
    """Describe the excess of a text over its bound; None for none.

    Args:
        text: What the model wrote.
        max_bytes: The number of bytes that it may have in UTF-8.
    """
    if len(text) * 4 <= max_bytes:  # a character has at most four bytes
        return None
    size = len(text.encode(errors="surrogatepass"))
    return f"have {size:,} bytes; at most {max_bytes:,} are allowed" if size > max_bytes else None


def parsed_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments as a fresh dictionary.

    Raises:
        ToolBoundaryError: They are no JSON object, name an argument twice, or hold a number that is too large
            for a float, so that what is inspected might not be what is carried out.
    """
    try:
        arguments: object = json.loads(
            call.arguments or "{}",
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {call.name} are not JSON: {error}",
            guidance=_WRITE_AN_OBJECT,
        ) from error
    if not isinstance(arguments, dict):
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {call.name} are not a JSON object",
            guidance=_WRITE_AN_OBJECT,
        )
    return cast("dict[str, Any]", arguments)


def with_arguments(call: ToolCall, arguments: Mapping[str, Any], *, author: str) -> ToolCall:
    """The call with other arguments.

    Args:
        call: The call.
        arguments: The arguments, of what JSON can hold.
        author: Who wrote them, for the error.

    Raises:
        HookError: They hold what JSON cannot.
    """
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        what = f"{author} rewrote a tool call to what is not JSON"
        raise HookError(f"{what}: {error}", hook=author).without_content(what) from error
    return ToolCall(id=call.id, name=call.name, arguments=text)


def canonical_arguments(call: ToolCall) -> str:
    """One text for all ways of writing the same arguments; what is no JSON stands for itself."""
    try:
        value: object = msgspec.json.decode(call.arguments or "{}")
        return msgspec.json.encode(value, order="sorted").decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    arguments = dict(pairs)
    if len(arguments) < len(pairs):
        raise ValueError("an object names the same field twice")
    return arguments


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:_QUOTED_CHARACTERS]} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
