"""The tools that the runtime itself offers to models: their arguments, their work, their replies.

Source: specification 8.3.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from ..errors import ToolBoundaryError
from ..kernel.actor import Pending, StepActor
from ..kernel.commands import Assign, ChangedNames, Command, Evaluate, Execute
from ..kernel.context import StepContext
from ..kernel.tools import FIND_TOOL_NAME, PROGRESS_TOOL_NAME
from ..lazy_exports import LazyModule
from ..prompt.scalars import PLAIN_TYPES
from ..secret_names import HIDDEN
from ..types.messages import ToolCall, ToolDefinition
from ..types.unset import UNSET
from ..values.validation import type_name
from ..wire.json_text import NOT_JSON, check_depth, describe_not_json
from .answer_form import object_schema, opened_schema

if TYPE_CHECKING:
    from ..kernel import progress as progress_reports
    from .tool_search import ToolFinder
else:
    progress_reports = LazyModule("nighthawk_async.kernel.progress")  # few models report their progress
    ToolFinder = object

Arguments = TypeVar("Arguments")

_MAX_READ_CHARACTERS = 1_000

_READ = re.compile(
    r"\s*(?:.*\.\s*)?(?P<name>[^\W\d]\w*)\s*"  # a name, or an attribute of anything
    r"|.*\[\s*(?P<quote>['\"])(?P<key>[^'\"]*)(?P=quote)\s*\]\s*",  # an item under a key
    re.DOTALL,
)


ASSIGN = "nh_assign"


class _EvalArguments(msgspec.Struct, forbid_unknown_fields=True):
    expression: str


class _AssignArguments(msgspec.Struct, forbid_unknown_fields=True):
    target_path: str
    value: object = msgspec.UNSET
    expression: str | None = None


class _ExecArguments(msgspec.Struct, forbid_unknown_fields=True):
    statements: str
    text: str | None = None


class _ProgressArguments(msgspec.Struct, forbid_unknown_fields=True):
    message: str
    done: float | None = None
    total: float | None = None


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


def decode_arguments(arguments: str, arguments_type: type[Arguments]) -> Arguments:
    """Return the arguments of a call; raises `ToolBoundaryError` if they do not fit."""
    try:
        check_depth(arguments)
        return msgspec.json.decode(arguments or "{}", type=arguments_type)
    except NOT_JSON as error:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments do not fit: {describe_not_json(error, arguments)}",
            guidance="Call the tool again with arguments that match its schema.",
        ) from error


def is_plain_assignment(call: ToolCall, context: StepContext) -> bool:
    """Whether a call sets a variable of a plain type, so that it needs no reading, as in most steps."""
    if call.name != ASSIGN:
        return False
    try:
        arguments = msgspec.json.decode(call.arguments, type=_AssignArguments)
    except NOT_JSON:
        return False
    is_plain = id(context.binding_types.get(arguments.target_path)) in PLAIN_TYPES
    return is_plain and (arguments.expression or "")[:1] not in ("`", " ", "\t", "\n")


def _post_eval(actor: StepActor, arguments: str) -> Pending[object]:
    return actor.post_evaluate(decode_arguments(arguments, _EvalArguments).expression)


def _post_assign(actor: StepActor, arguments: str) -> Pending[object]:
    decoded = decode_arguments(arguments, _AssignArguments)
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
    decoded = decode_arguments(arguments, _ExecArguments)
    return actor.post_execute(decoded.statements, text=decoded.text)


def _post_progress(actor: StepActor, arguments: str) -> Pending[object]:
    decoded = decode_arguments(arguments, _ProgressArguments)

    def report() -> None:
        progress_reports.report_progress(actor.node, decoded.message, done=decoded.done, total=decoded.total)

    return actor.post_call(PROGRESS_TOOL_NAME, report)


def describe_reply(
    command: Command, value: object, context: StepContext, *, hides: Callable[[str, object], bool]
) -> object:
    """Return a reply for the model: the value itself, or a diagnostic object for a change of state.

    Args:
        command: The command.
        value: The reply of the tool.
        context: The state of the step.
        hides: Whether the value of a name is hidden, for an expression that only reads it.
    """
    if isinstance(command, Execute):
        assert isinstance(value, ChangedNames)
        return _describe_cell(command, value, context, hides)
    shown = value
    if isinstance(command, Assign | Evaluate):
        shown = _shown_value(command.expression, value, hides)
    match command:
        case Assign(target=target):
            is_lost = not target.fields and target.root in context.lost_names
            return {
                "succeeded": True,
                "target_path": str(target),
                "type": PLAIN_TYPES.get(id(type(value))) or type_name(type(value)),
                "value": shown,
                **_note_of_lost((target.root,) if is_lost else (), context),
            }
        case _:
            return shown


def _describe_cell(
    command: Execute, left: ChangedNames, context: StepContext, hides: Callable[[str, object], bool]
) -> object:
    """The reply to a cell: its value alone, or the names that it changed, with what it printed."""
    note = _note_of_lost(left.lost, context)
    if note:
        note = {"changed": list(left), **note}
    has_value = left.value is not UNSET and (left.value is not None or not (left or left.printed))
    value = {}
    if has_value:
        last_line = command.statements.rstrip().rpartition("\n")[2]
        value = {"value": _shown_value(last_line, left.value, hides)}
        if not left.printed and not note:
            return value["value"]
    if not left.printed and not has_value:
        return note or {"changed": list(left)}
    printed = {"printed": left.printed} if left.printed else {}
    return {**printed, **value, **note}


def _shown_value(expression: str, value: object, hides: Callable[[str, object], bool]) -> object:
    """A value as it is shown: hidden if the expression only reads what is to be hidden."""
    read = _READ.fullmatch(expression[-_MAX_READ_CHARACTERS:])
    return HIDDEN if read is not None and hides(read["name"] or read["key"], value) else value


def _note_of_lost(names: Sequence[str], context: StepContext) -> Mapping[str, str]:
    """The note that assignments do not outlive the block; empty for none."""
    if not names:
        return {}
    settable = ", ".join(f"<:{name}>" for name in context.write_names) or "no variables"
    return {"note": f"not kept when the block ends: {', '.join(names)}; the block sets {settable}"}


def make_provided_tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    *,
    required: tuple[str, ...],
    post: Callable[[StepActor, str], Pending[object]],
) -> ProvidedTool:
    """Make a tool of the runtime; see `ProvidedTool`."""
    closed = object_schema(properties, required)
    is_closable = len(required) == len(properties)
    return ProvidedTool(
        definition=ToolDefinition(name=name, description=description, parameters=opened_schema(closed)),
        strict_definition=ToolDefinition(
            name=name,
            description=description,
            parameters=closed if is_closable else opened_schema(closed),
        ),
        post=post,
    )


_TEXT: Mapping[str, Any] = {"type": "string"}
_NUMBER: Mapping[str, Any] = {"type": "number", "minimum": 0}


PROVIDED_TOOLS: Mapping[str, ProvidedTool] = {
    "nh_eval": make_provided_tool(
        "nh_eval",
        "Evaluate a Python expression: to look, call functions, or change objects in place.",
        {"expression": _TEXT},
        required=("expression",),
        post=_post_eval,
    ),
    "nh_assign": make_provided_tool(
        "nh_assign",
        "Set a name or a field (`order.total`) to a JSON value or to that of an expression.",
        {"target_path": _TEXT, "value": {}, "expression": _TEXT},
        required=("target_path",),
        post=_post_assign,
    ),
    "nh_exec": make_provided_tool(
        "nh_exec",
        "Run a cell, with `text` as a raw variable.",
        {"statements": _TEXT, "text": _TEXT},
        required=("statements",),
        post=_post_exec,
    ),
    PROGRESS_TOOL_NAME: make_provided_tool(
        PROGRESS_TOOL_NAME,
        "Tell those who wait what you are doing, and how much is done. Call it beside other calls.",
        {"message": _TEXT, "done": _NUMBER, "total": _NUMBER},
        required=("message",),
        post=_post_progress,
    ),
}


class _FindArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str


def find_tool(finder: ToolFinder) -> ProvidedTool:
    """The tool that looks for the deferred tools of a step."""

    def post(actor: StepActor, arguments: str) -> Pending[object]:
        # Found here and not in the actor's turn: the order of calls is then that of the tools, and a tool
        # that cannot be described fails the step, as it does when it is not deferred.
        return actor.post_call(FIND_TOOL_NAME, finder.find(decode_arguments(arguments, _FindArguments).query))

    return make_provided_tool(
        FIND_TOOL_NAME,
        "Find more tools by words for what they do. You can call the found ones from your next response on.",
        {"query": _TEXT},
        required=("query",),
        post=post,
    )
