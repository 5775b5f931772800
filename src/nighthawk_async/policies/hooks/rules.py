"""Answers of hooks to events, and the table of those that each event allows."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, UnionType
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct

from ...kernel.events import (
    AfterModelRequest,
    AfterToolCall,
    BeforeCommit,
    BeforeCompaction,
    BeforeModelRequest,
    BeforeToolCall,
    BudgetThreshold,
    OversightDecided,
    PermissionDecided,
    ProgressReported,
    Retry,
    RunFinished,
    RunStarted,
    ScopeFinished,
    ScopeStarted,
    StepFinished,
    StepResumed,
    StepStarted,
    StepSuspended,
    ToolLoopSuspected,
    VerificationRefused,
)
from ...kernel.policy import deeply_read_only, read_only
from ...types.compaction import CompactionPlan, ResultDigest
from ...types.execution import PartialValues
from ...types.messages import (
    AssistantMessage,
    BinaryContent,
    FileUrl,
    ToolDefinition,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ...types.model import ModelRequest
from ...types.outcomes import Abort
from ..people.events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
)

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Veto:
    """Prevent the event. Later hooks are not called.

    Args:
        reason: The reason. For a tool call it is sent to the model; otherwise it is the message of the
            `StepRejectedError` with which the step fails.
        guidance: How to proceed instead.
    """

    reason: str
    guidance: str | None = None


@dataclass(frozen=True, slots=True)
class Modify:
    """Change a value of the event. Later hooks see the event with the new value.

    Args:
        value: The new value of the field that the event's docstring names.
    """

    value: object


HookAnswer: TypeAlias = Veto | Modify | Abort | None
"""The answer of a hook; None allows the event."""

HookFunction: TypeAlias = Callable[[Event], HookAnswer | Awaitable[HookAnswer]]
"""A hook: a function of an event, `def` or `async def`."""


class EventRule(Struct, frozen=True, kw_only=True):
    """Answers that an event allows. None is always allowed.

    Args:
        action: The action that `Veto` and `Abort` prevent; None when neither is allowed.
        modified_field: The field whose value `Modify` replaces; None when it is not allowed.
        checked_value: Returns the value as the field takes it, or raises `TypeError`.
        is_synchronous: Whether the event happens where nothing can be awaited, so that its hooks must be
            `def`.
    """

    action: str | None = None
    modified_field: str = ""
    checked_value: Callable[[object], object] | None = None
    is_synchronous: bool = False

    @property
    def allowed_answers(self) -> tuple[str, ...]:
        """The names of the answers that are allowed."""
        names = ("Veto", "Abort") if self.action else ()
        return (*names, "Modify") if self.checked_value else names


def _checked_request(value: object) -> ModelRequest:
    if not isinstance(value, ModelRequest):
        raise TypeError("the value must be a ModelRequest")
    has_messages = _are(value.messages, UserMessage | AssistantMessage | ToolResultsMessage)
    if not (
        has_messages
        and _are(value.tools, ToolDefinition)
        and isinstance(cast("object", value.settings), Mapping)
    ):
        raise TypeError("the value must have messages, tools and settings as a ModelRequest has them")
    return value


def _checked_plan(value: object) -> CompactionPlan:
    if not isinstance(value, CompactionPlan):
        raise TypeError("the value must be a CompactionPlan")
    texts = [cast("object", each.text) for each in value.digests if _are([each], ResultDigest)]
    summary = cast("object", value.summary)
    if len(texts) != len(value.digests) or not _are([*texts, summary or ""], str):
        raise TypeError("the digests and the summary of the value must be texts")
    return value


def _are(items: object, kind: type | UnionType) -> bool:
    return isinstance(items, list | tuple) and all(
        isinstance(item, kind) for item in cast("tuple[object, ...]", items)
    )


def _checked_mapping(value: object) -> Mapping[str, Any]:
    names = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("the value must be a mapping with names")
    return read_only(cast("Mapping[str, Any]", value))


def _checked_arguments(value: object) -> Mapping[str, Any]:
    try:
        return deeply_read_only(_checked_mapping(value))
    except RecursionError:
        raise TypeError("the value must be a mapping of what JSON can hold") from None


def _checked_content(value: object) -> tuple[UserContent, ...]:
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, tuple):
        raise TypeError("the value must be a text, or a tuple of texts and other content")
    for item in cast("tuple[object, ...]", items):
        if not isinstance(item, str | BinaryContent | FileUrl | UploadedFile):
            raise TypeError(f"{item!r} is no content")
    return cast("tuple[UserContent, ...]", items)


_OBSERVED = EventRule()
_OBSERVED_FROM_SYNC = EventRule(is_synchronous=True)

EVENT_RULES: Mapping[type, EventRule] = MappingProxyType(
    {
        RunStarted: _OBSERVED,
        RunFinished: _OBSERVED,
        ScopeStarted: _OBSERVED,
        ScopeFinished: _OBSERVED,
        StepStarted: EventRule(action="the step"),
        StepFinished: _OBSERVED,
        BeforeModelRequest: EventRule(
            action="the model request", modified_field="request", checked_value=_checked_request
        ),
        BeforeCompaction: EventRule(
            action="the compaction", modified_field="plan", checked_value=_checked_plan
        ),
        AfterModelRequest: _OBSERVED,
        BeforeToolCall: EventRule(
            action="the tool call", modified_field="arguments", checked_value=_checked_arguments
        ),
        AfterToolCall: EventRule(modified_field="content", checked_value=_checked_content),
        PartialValues: _OBSERVED,
        BeforeCommit: EventRule(
            action="the commit", modified_field="bindings", checked_value=_checked_mapping
        ),
        BudgetThreshold: _OBSERVED,
        Retry: _OBSERVED,
        StepSuspended: _OBSERVED,
        StepResumed: _OBSERVED,
        ToolLoopSuspected: _OBSERVED,
        VerificationRefused: _OBSERVED,
        OversightDecided: _OBSERVED,
        PermissionDecided: _OBSERVED_FROM_SYNC,
        ProgressReported: _OBSERVED_FROM_SYNC,
        QuestionAsked: _OBSERVED_FROM_SYNC,
        QuestionAnswered: _OBSERVED_FROM_SYNC,
        QuestionClosed: _OBSERVED_FROM_SYNC,
        ApprovalRequested: _OBSERVED_FROM_SYNC,
        ApprovalAnswered: _OBSERVED_FROM_SYNC,
        ApprovalClosed: _OBSERVED_FROM_SYNC,
    }
)
"""Complete: a type that is not listed is not an event."""
