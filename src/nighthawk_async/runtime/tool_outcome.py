"""Outcomes of tool calls, and their rendering for the model (specification 8.3, 8.3.1)."""

import json

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..configuration import JsonRendererStyle
from ..errors import (
    ApprovalDeniedError,
    ErrorKind,
    ModelError,
    NighthawkError,
    StepAbortedError,
    StepRejectedError,
    ToolBoundaryError,
    ToolValidationError,
)
from ..prompt.multimodal import as_user_content
from ..prompt.preview import render_preview
from ..prompt.tokens import TokenCounter
from ..types.content import UserContent

__all__ = [
    "ToolError",
    "ToolOutcome",
    "ToolResultRenderingPolicy",
    "outcome_of_failure",
    "project_error",
    "project_outcome",
    "render_outcome",
]

_MAX_MESSAGE_CHARACTERS = 2_000


class ToolError(Struct, frozen=True, kw_only=True):
    """A failure as the model sees it.

    Args:
        kind: The category.
        message: What failed.
        guidance: What the model may do about it, when there is something.
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
        json_renderer_style: How the preview shows what it leaves out.
        show_secrets: Whether it shows what stands under names of secrets.
    """

    counter: TokenCounter
    tool_result_max_tokens: int
    json_renderer_style: JsonRendererStyle = "default"
    show_secrets: bool = False

    @property
    def tokenizer_encoding_name(self) -> str:
        """The name of the tokenizer encoding in use."""
        return self.counter.encoding_name


def outcome_of_failure(error: NighthawkError) -> ToolOutcome:
    """The outcome that tells the model what went wrong, with a hint where one helps.

    Args:
        error: What the step actor replied with.
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
    """Return the content for the model: multimodal payloads natively and in order, all else as a preview."""
    if outcome.error is None:
        content = as_user_content(outcome.payload)
        if content is not None:
            return content
    return (project_outcome(outcome, policy),)
