"""Arguments of tool calls, their JSON Schema and validation, and outcomes as the model reads them.

Specification 8.3 and 8.3.1.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, cast

from msgspec import Struct
from msgspec.structs import asdict, replace
from pydantic_core import SchemaValidator, core_schema

from ..configuration import JsonRendererStyle
from ..errors import (
    ApprovalDeniedError,
    ErrorKind,
    HookError,
    ModelError,
    NighthawkError,
    StepAbortedError,
    StepRejectedError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
)
from ..prompt.multimodal import as_user_content
from ..prompt.plain_text import safe_text, shown_text
from ..prompt.previews import render_preview
from ..prompt.tokens import TokenCounter
from ..types.messages import ToolCall, UserContent
from ..values.plain_data import data_validator, json_schemas_of
from ..values.schemas import CoreSchema, adapted_core_schema, default_as_data
from .context import FAILURE

_TOKENS_OF_NOTE = 20

NO_DEFAULT = object()
"""Marks a parameter without a default."""


class ToolParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a tool.

    Args:
        annotation: Its type.
        description: Explanation for the model; empty for none. A description in the type takes precedence.
        default: Its default; `NO_DEFAULT` for none.
    """

    annotation: object
    description: str = ""
    default: object = NO_DEFAULT

    def completed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of the type with the description and the default."""
        described = {"description": self.description, **schema} if self.description else schema
        return described | (default_as_data(self.default) if self.default is not NO_DEFAULT else {})


@dataclass(frozen=True, kw_only=True)
class ToolArguments:
    """The arguments of a tool, given as one JSON object; they accept the same data as answers do.

    Args:
        parameters: The parameters by name.
    """

    parameters: Mapping[str, ToolParameter]

    @cached_property
    def _core_schemas(self) -> Mapping[str, CoreSchema]:
        return {name: adapted_core_schema(each.annotation) for name, each in self.parameters.items()}

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the object.

        Raises:
            Exception: A type has no JSON Schema.
        """
        made = json_schemas_of([each.whole for each in self._core_schemas.values()])
        properties = {
            name: parameter.completed(schema)
            for (name, parameter), schema in zip(self.parameters.items(), made.schemas, strict=True)
        }
        required = [name for name, each in self.parameters.items() if each.default is NO_DEFAULT]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **({"$defs": made.definitions} if made.definitions else {}),
        }

    def validated(self, arguments: str) -> dict[str, object]:
        """Return the values of JSON arguments, without defaults.

        Raises:
            Exception: They do not match, or a type has no validator.
        """
        return self._validator.validate_json(arguments)

    @cached_property
    def _validator(self) -> SchemaValidator:
        fields = {
            name: core_schema.typed_dict_field(
                cast("core_schema.CoreSchema", self._core_schemas[name].schema),
                required=parameter.default is NO_DEFAULT,
            )
            for name, parameter in self.parameters.items()
        }
        definitions = {each["ref"]: each for core in self._core_schemas.values() for each in core.definitions}
        whole = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        return data_validator(CoreSchema(cast("dict[str, Any]", whole), list(definitions.values())))


_QUOTED_CHARACTERS = 40
_WRITE_AN_OBJECT = "Call the tool again with one JSON object."


def check_size(call: ToolCall, max_bytes: int) -> None:
    """Refuse arguments that are too long.

    Args:
        call: The call.
        max_bytes: The greatest size of the arguments, in bytes of UTF-8.

    Raises:
        ToolBoundaryError: They are longer.
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
    """Describe by how much a text exceeds its bound; None if it does not.

    Args:
        text: The text that the model wrote.
        max_bytes: The greatest size of the text, in bytes of UTF-8.
    """
    if len(text) * 4 <= max_bytes:  # a character has at most four bytes
        return None
    size = len(text.encode(errors="surrogatepass"))
    return f"have {size:,} bytes; at most {max_bytes:,} are allowed" if size > max_bytes else None


def parsed_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments as a fresh dictionary.

    Raises:
        ToolBoundaryError: They are not a JSON object, name an argument twice, or hold a number that is too
            large for a float: what is inspected could then differ from what is executed.
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
        arguments: The arguments, as JSON values.
        author: Their author, for the error.

    Raises:
        HookError: JSON cannot represent them.
    """
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        what = f"{author} rewrote a tool call to what is not JSON"
        raise HookError(f"{what}: {error}", hook=author).without_content(what) from error
    return ToolCall(id=call.id, name=call.name, arguments=text)


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


_MAX_MESSAGE_CHARACTERS = 4_000


class ToolError(Struct, frozen=True, kw_only=True):
    """A failure as the model sees it.

    Args:
        kind: The category.
        message: The failure.
        guidance: Advice for the model, when there is any.
    """

    kind: ErrorKind
    message: str
    guidance: str | None = None


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """The canonical result of a tool call.

    Args:
        payload: The value on success.
        error: The failure; None on success.
    """

    payload: object = None
    error: ToolError | None = None


class ToolResultRenderingPolicy(Struct, frozen=True, kw_only=True):
    """Rendering of tool results for the model.

    Args:
        counter: Counts tokens.
        tool_result_max_tokens: Tokens of one result's preview.
        json_renderer_style: The style of what the preview leaves out.
        show_secrets: Whether it shows values under names of secrets.
        shows_texts: Whether a text of several lines is shown as it is, not as JSON.
    """

    counter: TokenCounter
    tool_result_max_tokens: int
    json_renderer_style: JsonRendererStyle = "default"
    show_secrets: bool = False
    shows_texts: bool = True

    @property
    def tokenizer_encoding_name(self) -> str:
        """The name of the tokenizer encoding in use."""
        return self.counter.encoding_name


def outcome_of_failure(error: NighthawkError) -> ToolOutcome:
    """The outcome that describes a failure to the model, with a hint where one helps.

    Args:
        error: The error that the step actor replied with.
    """
    match error:
        case ToolBoundaryError():
            failure = ToolError(kind=error.kind, message=error.message, guidance=error.guidance)
        case ToolValidationError():
            failure = ToolError(
                kind="invalid_input", message=str(error), guidance="Pass a value of the expected type."
            )
        case _:
            failure = _evaluation_failure(error)
    if len(failure.message) > _MAX_MESSAGE_CHARACTERS:
        failure = replace(failure, message=failure.message[:_MAX_MESSAGE_CHARACTERS] + "…")
    return ToolOutcome(error=failure)


def _evaluation_failure(error: NighthawkError) -> ToolError:
    match error.__cause__:
        case ToolBoundaryError() as raised:
            return ToolError(kind=raised.kind, message=str(error), guidance=raised.guidance)
        case StepAbortedError() | StepRejectedError() | ApprovalDeniedError():
            guidance = "Do not try it again; go on without its result."
            return ToolError(kind="oversight", message=str(error), guidance=guidance)
        case SyntaxError():
            return ToolError(kind="invalid_input", message=str(error), guidance="Write valid Python.")
        case NameError():
            guidance = "Use the names shown under LOCALS and GLOBALS."
            return ToolError(kind="resolution", message=str(error), guidance=guidance)
        case ModelError(is_transient=True):
            guidance = "The same call may succeed later."
            return ToolError(kind="transient", message=str(error), guidance=guidance)
        case _:
            guidance = "Change the call, or go on without its result."
            if isinstance(error, ToolEvaluationError) and error.can_be_raised:
                guidance += f" The block can raise this exception: raise_expression {FAILURE}."
            return ToolError(kind="execution", message=str(error), guidance=guidance)


def project_error(error: ToolError) -> str:
    """The preview of a failure."""
    return json.dumps({"value": None, "error": asdict(error)}, ensure_ascii=False)


def project_outcome(outcome: ToolOutcome, policy: ToolResultRenderingPolicy) -> str:
    """The preview `{"value": …, "error": …}`, its value bounded by the policy."""
    if outcome.error is not None:
        return project_error(outcome.error)
    preview = render_preview(
        outcome.payload,
        max_tokens=policy.tool_result_max_tokens,
        style=policy.json_renderer_style,
        counter=policy.counter,
        show_secrets=policy.show_secrets,
    )
    return f'{{"value": {preview}, "error": null}}'


def render_outcome(outcome: ToolOutcome, policy: ToolResultRenderingPolicy) -> tuple[UserContent, ...]:
    """Return the content for the model.

    Multimodal payloads are sent natively and in order; a text of several lines, and results that say so, as
    text without escapes; all else as a preview.
    """
    if outcome.error is None:
        content = as_user_content(outcome.payload)
        if content is not None:
            return content
        text = shown_text(outcome.payload) if policy.shows_texts else None
        if text is not None:
            return (_bounded(text, policy),)
    return (project_outcome(outcome, policy),)


def _bounded(text: str, policy: ToolResultRenderingPolicy) -> str:
    """The text, of a long one the beginning and the end."""
    text, counter, room = safe_text(text), policy.counter, policy.tool_result_max_tokens
    if not counter.exceeds(text, room):
        return text
    room -= _TOKENS_OF_NOTE
    head = counter.truncate(text, max(1, room * 2 // 3))
    tail = text[max(len(head), len(text) - len(head) // 2) :]
    while counter.exceeds(tail, max(1, room // 3)):
        tail = tail[len(tail) // 8 + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left_out} characters left out …]\n{tail}"
