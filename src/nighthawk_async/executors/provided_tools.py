"""The tools that every step offers: nh_eval, nh_assign, nh_exec (specification 8.3)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..errors import ToolBoundaryError
from ..runtime.commands import Assign, Command, Evaluate, Execute
from ..runtime.step_actor import Pending, StepActor
from ..runtime.tool_function import OUTCOME_TOOL_NAME
from ..runtime.validation import type_name
from ..secret_names import HIDDEN
from ..types.messages import ToolDefinition
from ..wire.json_text import NOT_JSON, check_depth, describe_not_json
from .answer_form import object_schema, opened_schema

Arguments = TypeVar("Arguments")

_MAX_READ_CHARACTERS = 1_000

_READ = re.compile(
    r"\s*(?:.*\.\s*)?(?P<name>[^\W\d]\w*)\s*"  # a name, or an attribute of anything
    r"|.*\[\s*(?P<quote>['\"])(?P<key>[^'\"]*)(?P=quote)\s*\]\s*",  # an item under a key
    re.DOTALL,
)


class _EvalArguments(msgspec.Struct, forbid_unknown_fields=True):
    expression: str


class _AssignArguments(msgspec.Struct, forbid_unknown_fields=True):
    target_path: str
    value: object = msgspec.UNSET
    expression: str | None = None


class _ExecArguments(msgspec.Struct, forbid_unknown_fields=True):
    statements: str


class ProvidedTool(Struct, frozen=True, kw_only=True):
    """A tool of the runtime itself.

    Args:
        definition: The tool as a model sees it.
        strict_definition: The same for endpoints that enforce schemas, which must be closed there.
        post: Posts the call to the step actor; raises `ToolBoundaryError` for arguments that do not fit.
    """

    definition: ToolDefinition
    strict_definition: ToolDefinition
    post: Callable[[StepActor, str], Pending[object]]


def _decode(arguments: str, arguments_type: type[Arguments]) -> Arguments:
    try:
        check_depth(arguments)
        return msgspec.json.decode(arguments or "{}", type=arguments_type)
    except NOT_JSON as error:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments do not fit: {describe_not_json(error, arguments)}",
            guidance="Call the tool again with arguments that match its schema.",
        ) from error


def _post_eval(actor: StepActor, arguments: str) -> Pending[object]:
    return actor.post_evaluate(_decode(arguments, _EvalArguments).expression)


def _post_assign(actor: StepActor, arguments: str) -> Pending[object]:
    decoded = _decode(arguments, _AssignArguments)
    if decoded.expression is None and decoded.value is not msgspec.UNSET:
        return actor.post_assign(decoded.target_path, data=decoded.value)
    if decoded.expression is None or decoded.value not in (None, msgspec.UNSET):
        raise ToolBoundaryError(
            kind="invalid_input",
            message="nh_assign takes a value, which is JSON, or an expression, and not both",
            guidance="Call the tool again with one of them.",
        )
    return actor.post_assign(decoded.target_path, decoded.expression)


def _post_exec(actor: StepActor, arguments: str) -> Pending[object]:
    return actor.post_execute(_decode(arguments, _ExecArguments).statements)


def describe_reply(command: Command, value: object, *, hides: Callable[[str, object], bool]) -> object:
    """Return a reply for the model: the value itself, or a diagnostic object for a change of state.

    Args:
        command: The command.
        value: The reply of the tool.
        hides: Whether the value of a name is hidden, for an expression that only reads it.
    """
    shown = value
    if isinstance(command, Assign | Evaluate):
        read = _READ.fullmatch(command.expression[-_MAX_READ_CHARACTERS:])
        if read is not None and hides(read["name"] or read["key"], value):
            shown = HIDDEN
    match command:
        case Assign():
            return {
                "succeeded": True,
                "target_path": str(command.target),
                "type": type_name(type(value)),
                "value": shown,
            }
        case Execute():
            return {"changed": value}
        case _:
            return shown


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    *,
    required: tuple[str, ...],
    post: Callable[[StepActor, str], Pending[object]],
) -> ProvidedTool:
    closed = object_schema(properties, required)
    strict = ToolDefinition(name=name, description=description, parameters=closed)
    return ProvidedTool(
        definition=replace(strict, parameters=opened_schema(closed)), strict_definition=strict, post=post
    )


_TEXT: Mapping[str, Any] = {"type": "string"}


PROVIDED_TOOLS: Mapping[str, ProvidedTool] = {
    "nh_eval": _tool(
        "nh_eval",
        "Evaluate a Python expression: to look, call functions, or change objects in place.",
        {"expression": _TEXT},
        required=("expression",),
        post=_post_eval,
    ),
    "nh_assign": _tool(
        "nh_assign",
        "Set a name or a field (`order.total`) to a JSON value or to that of an expression.",
        {"target_path": _TEXT, "value": {}, "expression": _TEXT},
        required=("target_path",),
        post=_post_assign,
    ),
    "nh_exec": _tool(
        "nh_exec",
        "Execute Python statements; new names last until the block ends.",
        {"statements": _TEXT},
        required=("statements",),
        post=_post_exec,
    ),
}


def outcome_tool_definition(schema: Mapping[str, Any]) -> ToolDefinition:
    """The tool that delivers the outcome; its arguments are exactly the final JSON of specification 8.4."""
    return ToolDefinition(name=OUTCOME_TOOL_NAME, description="End the block.", parameters=schema)
