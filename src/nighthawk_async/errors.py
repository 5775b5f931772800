"""Errors of the library. Those of `actors`, `parallel` and other packages stand there.

    NighthawkError
    ├── NaturalParseError           a natural block, its bindings or its frontmatter are malformed
    ├── ConfigurationError          a setting is wrong; nothing was sent anywhere
    │   ├── UnknownModelError           no provider or model of that name, or a malformed model id
    │   ├── MissingCredentialError      the provider's API key is not set
    │   ├── SandboxUnavailableError     code of models has no sandbox here, and runs nowhere
    │   └── UnsupportedContentError     the model cannot take a kind of content
    ├── ExecutionError              a step failed
    │   ├── AnnotationError             a type in the program cannot be resolved or validated
    │   ├── StepLimitError              a limit on turns, tool calls, seconds or nested steps was reached
    │   │   ├── RepeatedToolCallError       the model made the same tool call again and again
    │   │   └── NestedStepLimitError        steps would be nested too deeply
    │   ├── RefusalError                the model, or the filter of its provider, refused to answer
    │   ├── StepStoppedError            a step was stopped through its handle
    │   ├── StepRejectedError           oversight, or a hook, refused a step or its commit
    │   ├── VerificationError           a check refused every outcome that the model proposed
    │   └── StepEndedError              a message reached a step actor that had already stopped
    ├── TextReplacedError           a text was replaced after a part of it had been streamed
    ├── RunForkedError              a run was opened before this process was forked, in another one
    ├── BudgetExceededError         a budget has no room for an operation
    ├── EgressDeniedError           a host may not be reached in this run or scope
    ├── StepAbortedError            oversight, or a hook, ended a step
    ├── HookError                   a hook raised, or gave an answer that its event does not allow
    │   └── ToolSearchError             a function that searches deferred tools gave what is none of them
    ├── HumanError                  a person was asked, without success
    │   ├── NoHumanError                no person can be asked
    │   ├── AnswerTimeoutError          no answer came in time
    │   ├── ApprovalDeniedError         the approval was denied
    │   └── ApprovalExpiredError        too few people approved in time
    ├── ToolEvaluationError         an expression or a statement raised while a tool evaluated it
    ├── ToolValidationError         a value does not match the type of its binding
    ├── ToolRegistrationError       a tool has a bad name, a bad signature, or a name that is taken
    ├── TranscriptError             a transcript does not exist, is malformed, or cannot be read
    ├── ToolBoundaryError           raised by a tool to send a structured failure to the model
    └── ModelError                  a model request failed
        ├── ModelConnectionError        no connection, or a broken one
        ├── ModelTimeoutError           something took too long
        │   ├── ConnectTimeoutError         the connection
        │   ├── FirstEventTimeoutError      the beginning of the response
        │   ├── IdleTimeoutError            the next sign of life in the response
        │   └── RequestTimeoutError         the whole request
        ├── ModelStatusError            the endpoint answered with an HTTP error status
        ├── ModelProviderError          the provider reported an error inside its stream
        ├── ModelProtocolError          the answer is not what the protocol promises
        │                               of a known kind, and a status or provider error too:
        ├── ContextTooLongError         the request is longer than the model, or the endpoint, takes
        ├── ContentFilterError          the provider's filter refused the content; also a `RefusalError`
        ├── QuotaExhaustedError         the account has no credit, or has used up its quota
        ├── ModelNotFoundError          the endpoint has no such model
        ├── AuthenticationError         the endpoint does not accept the key or the token
        ├── PermissionDeniedError       the key or the account may not do this
        ├── RateLimitError              too many requests or tokens in a short time
        └── OverloadedError             the provider has too much to do

Some packages define their own errors: `InterceptionError` of `kernel.commit` and those below it;
`actors.errors` and `parallel.errors`, because those packages do not import this module.
All of them can be pickled and copied: `pickling` has the base that they share.

Source: specification section 13; the branches below `ConfigurationError` and `ModelError` are this
library's own, because it speaks to the providers itself.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, Self, TypeAlias

from .pickling import PicklableError, UnpicklableError as UnpicklableError

__all__ = [
    "ApprovalDeniedError",
    "ApprovalExpiredError",
    "BudgetExceededError",
    "ConfigurationError",
    "EgressDeniedError",
    "ExecutionError",
    "HookError",
    "HumanError",
    "MissingCredentialError",
    "ModelConnectionError",
    "ModelError",
    "ModelStatusError",
    "ModelTimeoutError",
    "NaturalParseError",
    "NighthawkError",
    "NoHumanError",
    "RefusalError",
    "StepAbortedError",
    "StepLimitError",
    "StepRejectedError",
    "ToolEvaluationError",
    "ToolRegistrationError",
    "ToolValidationError",
    "UnknownModelError",
]

ErrorKind: TypeAlias = Literal[
    "invalid_input", "resolution", "execution", "transient", "internal", "oversight"
]
"""Categories of failures that a model may see (specification 8.3)."""

AnswerCause: TypeAlias = Literal[
    "not_json",
    "cut_off",
    "too_long",
    "no_outcome",
    "outcome_kind",
    "outcome_fields",
    "binding_name",
    "binding_value",
    "binding_missing",
    "return_value",
    "return_expression",
    "raise_type",
    "raise_expression",
    "calls_failed",
    "calls_after_outcome",
    "call_form",
]
"""Causes of a correction of a model's answer."""

CorrectionCause: TypeAlias = AnswerCause | ErrorKind
"""Causes of corrections: of an answer, or, by the kind of the error, of a tool call.

`oversight` is also the cause when a check, a hook or oversight does not accept an answer.
"""


class NighthawkError(PicklableError):
    """Base class of every exception this library raises on purpose.

    Raised itself when a runtime precondition fails, for example when no run is active.
    """

    is_transient: bool = False
    """Whether the same operation may succeed later."""
    retry_after_seconds: float | None = None
    """The number of seconds after which it may succeed; None when unknown."""

    execution_id: str | None = None
    """The `execution_id` of the innermost step that it propagated out of; None for none."""

    _without_content: str | None = None

    @property
    def message_without_content(self) -> str:
        """The message without content: without quotations of model output and values."""
        return str(self) if self._without_content is None else self._without_content

    def without_content(self, message: str) -> Self:
        """Set the message to use where no content may be shown, and return the error.

        Args:
            message: The failure, described without content.
        """
        self._without_content = message
        return self


class NaturalParseError(NighthawkError):
    """A natural block could not be parsed.

    Args:
        message: The mistake and its remedy.
        filename: The source file of the block, when known.
        line: The line of the block in that file, counted from 1, when known.
    """

    def __init__(self, message: str, *, filename: str | None = None, line: int | None = None) -> None:
        self.message = message
        self.filename = filename
        self.line = line
        place = "" if filename is None else f"{filename}:{line}: " if line is not None else f"{filename}: "
        super().__init__(place + message)


class ConfigurationError(NighthawkError):
    """A setting is wrong. Nothing was sent."""


class UnknownModelError(ConfigurationError):
    """No provider or model of that name exists, or the model id is not `provider:model`."""


class MissingCredentialError(ConfigurationError):
    """The API key of the provider is not set."""


class SandboxUnavailableError(ConfigurationError):
    """The sandbox for a model's code cannot run here. The code runs nowhere: no level takes its place."""


class UnsupportedContentError(ConfigurationError):
    """The model cannot take a kind of content that the request holds."""

    _without_content = "the model cannot take a kind of content that the request holds"


class ExecutionError(NighthawkError):
    """A step failed.

    For example: the model's answer is not JSON, the outcome kind is not allowed for the block, the return
    value does not match the function's annotation, or the block raised without a matching exception type.
    """

    cause: "CorrectionCause | None" = None
    """The fault of the model's answer, if that is what failed."""

    def caused_by(self, cause: "CorrectionCause") -> Self:
        """Set the fault of the model's answer, and return the error."""
        self.cause = cause
        return self


class AnnotationError(ExecutionError):
    """A type in the program cannot be resolved, or no value can be validated against it. Nothing was sent.

    The message names what is annotated: a write binding, or the return value. The step is not retried.
    """


class StepLimitError(ExecutionError):
    """A limit on turns, tool calls, seconds or nested steps was reached before the step had an outcome."""


class RepeatedToolCallError(StepLimitError):
    """The model made the same tool call, with the same result, again and again."""


class NestedStepLimitError(StepLimitError):
    """A step would be nested deeper than `max_depth` allows. It did not begin; it is not retried."""


class RefusalError(ExecutionError):
    """The model, or the filter of its provider, refused to answer.

    The model is not asked again: it would hardly answer otherwise.

    Args:
        message: The failure, naming the step.
        category: The provider's word for the kind of content, such as `cyber` or `SAFETY`; None when it gives
            none.
        explanation: The provider's, or the model's, words about it; None when it gives none.
    """

    def __init__(self, message: str, *, category: str | None = None, explanation: str | None = None) -> None:
        super().__init__(message)
        self.category = category
        self.explanation = explanation


class StepStoppedError(ExecutionError):
    """A step was stopped through its handle. It is not retried."""


class StepRejectedError(ExecutionError):
    """Oversight, or a hook, refused a step or its commit. It is not retried.

    The cause is a `ToolBoundaryError` of kind `oversight`, with the reason and the guidance.
    """


class VerificationError(ExecutionError):
    """A check refused every outcome that the model proposed.

    Args:
        message: The failure, naming the step.
        feedback: The feedback of the check on the last one.
    """

    def __init__(self, message: str, *, feedback: str = "") -> None:
        super().__init__(message)
        self.feedback = feedback


class TextReplacedError(NighthawkError):
    """A text was replaced after a part of it had been streamed, by another one that begins differently.

    Args:
        message: The failure.
        text: The text that was written at last.
    """

    def __init__(self, message: str, *, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class StepEndedError(ExecutionError):
    """A message was sent to a step actor that had already stopped."""


class BudgetExceededError(NighthawkError):
    """A budget has no room for an operation. The operation did not happen, and nothing was sent.

    Args:
        budget: The name of the budget.
        resource: The limited resource: `tokens`, `cost`, `steps`, `turns`, `tool_calls` or `seconds`.
        limit: The amount that it allows; cost in US dollars.
        spent: The amount spent.
        reserved: The amount reserved for work in progress.
        asked: The further amount that was requested.
        window: The window of time in which the limit holds, in words, as in "the day until 2026-12-01 00:00
            UTC"; empty for a budget without windows.
    """

    account_id: str | None = None
    """The account that refused it, also in copies and in other processes; None for none."""

    def __init__(
        self,
        *,
        budget: str,
        resource: str,
        limit: int | float | Decimal,
        spent: int | float | Decimal,
        reserved: int | float | Decimal,
        asked: int | float | Decimal,
        window: str = "",
    ) -> None:
        if resource == "seconds":
            what = f"its {limit:g} seconds are over"
        else:
            in_use = f"{spent:,} spent" + (f", {reserved:,} reserved" if reserved else "")
            what = f"no room for {_amount(asked, resource)}: {in_use} of {limit:,}"
        super().__init__(f"budget {budget}: {what}" + (f" in {window}" if window else ""))
        self.budget, self.resource, self.limit = budget, resource, limit
        self.spent, self.reserved, self.asked, self.window = spent, reserved, asked, window


def _amount(number: int | float | Decimal, resource: str) -> str:
    if resource == "cost":
        return f"{number:,} US dollars"
    words = resource.replace("_", " ")
    return f"{number:,} {words.removesuffix('s') if number == 1 else words}"


class StepAbortedError(NighthawkError):
    """Oversight, or a hook, ended a step. It is not retried.

    Args:
        reason: The reason given by the oversight or the hook.
        step_id: The block; None outside a step.
    """

    def __init__(self, reason: str, *, step_id: str | None = None) -> None:
        super().__init__(reason if step_id is None else f"step {step_id}: aborted: {reason}")
        self.without_content("the step was aborted" if step_id is None else f"step {step_id}: aborted")
        self.reason = reason
        self.step_id = step_id


class HookError(NighthawkError):
    """A hook raised, or gave an answer that its event does not allow. The cause is chained.

    Args:
        message: The failure.
        hook: The name of the hook.
    """

    def __init__(self, message: str, *, hook: str) -> None:
        super().__init__(message)
        self.hook = hook


class ToolSearchError(HookError):
    """A function that searches deferred tools gave something else than names of the tools it was given.

    Args:
        message: The failure.
        hook: The name of the function.
    """


class EgressDeniedError(NighthawkError):
    """A host may not be reached in this run or scope (`nighthawk_async.egress`); nothing was sent to it."""


class HumanError(NighthawkError):
    """A person was asked for an answer or an approval, without success."""


class RunForkedError(NighthawkError):
    """A run was opened in the process that this one was forked from, whose threads and loops are not here."""


class NoHumanError(HumanError):
    """No person can be asked: no handler is installed, or it has no way to reach anyone."""


class AnswerTimeoutError(HumanError, TimeoutError):
    """No answer came in time, and there is no default."""


class ApprovalDeniedError(HumanError):
    """An approval was denied.

    Args:
        action: The action that was to be approved.
        approver: The person who denied it; None when no person did.
        reason: The reason, if one was given.
    """

    def __init__(self, action: str, *, approver: str | None = None, reason: str = "") -> None:
        by = "" if approver is None else f" by {approver}"
        denied = f"{action}: denied{by}"
        super().__init__(denied + (f": {reason}" if reason else ""))
        self.without_content(denied)
        self.action = action
        self.approver = approver
        self.reason = reason


class ApprovalExpiredError(HumanError, TimeoutError):
    """Too few people approved in time."""


class ToolEvaluationError(NighthawkError):
    """Evaluating an expression or a statement inside a tool call failed. The cause is chained.

    Attributes:
        can_be_raised: Whether the block may raise the cause, the very object, by an expression.
    """

    can_be_raised: bool = False


class ToolValidationError(NighthawkError):
    """A value does not match the type of the binding it was assigned to.

    Attributes:
        annotation: The type; None when unknown.
        paths: The places in the value that fail, as far as they are known: fields, keys and positions.
    """

    annotation: object = None
    paths: tuple[tuple[str | int, ...], ...] = ()

    def about(self, annotation: object, *paths: tuple[str | int, ...]) -> Self:
        """Set the type and the failing places in the value, and return the error."""
        self.annotation, self.paths = annotation, paths
        return self


class ToolRegistrationError(NighthawkError):
    """A tool could not be registered."""


class TranscriptError(NighthawkError):
    """A transcript does not exist, is malformed, or cannot be read."""


class ToolBoundaryError(NighthawkError):
    """A structured failure that a tool sends to the model (specification 8.3.1).

    Args:
        kind: The category of the failure.
        message: The failure.
        guidance: Advice for the model, when there is any.
    """

    def __init__(self, *, kind: ErrorKind, message: str, guidance: str | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.guidance = guidance


ModelErrorKind: TypeAlias = Literal[
    "context_too_long",
    "content_filter",
    "quota_exhausted",
    "model_not_found",
    "authentication",
    "permission_denied",
    "rate_limit",
    "overloaded",
]
"""Kinds of errors that providers report."""

_KINDS: dict[str, type["KnownModelError"]] = {}
_FORMS: dict[tuple[type["ModelError"], str], Any] = {}


class ModelError(NighthawkError):
    """A model request failed.

    Args:
        message: The failure, naming the model or the endpoint.
        is_transient: Whether the same request may succeed later.

    Attributes:
        retries: The number of times that the request was sent again before this error.
    """

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_transient = is_transient
        self.retries = 0

    @classmethod
    def in_kind(cls, kind: ModelErrorKind | None) -> type[Self]:
        """Return the subclass of this class whose errors are of a kind as well; the class itself for None.

        Args:
            kind: The kind, such as `context_too_long`; None when it is unknown.

        Raises:
            KeyError: The class has no such subclass: only `ModelStatusError` and `ModelProviderError` have
            them.
        """
        if kind is None:
            return cls
        found: type[Self] = _FORMS[cls, kind]
        return found

    @classmethod
    def forms_of_kinds(cls, module: str) -> Mapping[str, type[Self]]:
        """Make the subclasses that `in_kind` returns.

        Args:
            module: The module whose attributes they become, under the names that are the keys: pickles and
                journals find them there.

        Returns:
            The subclasses, by the names that they have in the module.
        """
        make: Any = type
        found: dict[str, type[Self]] = {}
        for kind in _KINDS.values():
            name = kind.__name__.removesuffix("Error") + cls.__name__.removeprefix("Model")
            made = make(kind.__name__, (cls, kind), {"__doc__": kind.__doc__, "__module__": module})
            made.__qualname__ = name
            _FORMS[cls, kind.kind] = found[name] = made
        return found


class ModelConnectionError(ModelError):
    """The connection could not be made, or broke."""


class ModelTimeoutError(ModelError):
    """A phase of the request took too long; see the subclasses."""


class ConnectTimeoutError(ModelTimeoutError):
    """The connection was not made in time (`connect_timeout`)."""


class FirstEventTimeoutError(ModelTimeoutError):
    """The response did not begin in time (`first_event_timeout`)."""


class IdleTimeoutError(ModelTimeoutError):
    """A response that had begun was silent for too long (`idle_timeout`)."""


class RequestTimeoutError(ModelTimeoutError):
    """The whole request took too long.

    Either the request from its first turn on, with its retries (`timeout`), or the wait for a turn
    (`queue_timeout`).
    """


class ModelStatusError(ModelError):
    """The endpoint answered with an HTTP error status.

    Args:
        message: The failure, with an excerpt of the endpoint's own message.
        status: The HTTP status code.
        is_transient: Whether the same request may succeed later.
        retry_after_seconds: The wait that the endpoint asked for, in seconds, when it did.
        error_type: The provider's own name of the error, when it gave one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        is_transient: bool = False,
        retry_after_seconds: float | None = None,
        error_type: str | None = None,
    ) -> None:
        super().__init__(message, is_transient=is_transient)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.error_type = error_type
        self.without_content(f"the endpoint answered with the HTTP status {status}")


class ModelProviderError(ModelError):
    """The provider reported an error inside a stream that had begun with a success status.

    Args:
        message: The provider's message.
        error_type: The provider's own name of the error, when it gave one.
        is_transient: Whether the same request may succeed later.
    """

    _without_content = "the provider reported an error"

    def __init__(self, message: str, *, error_type: str | None = None, is_transient: bool = False) -> None:
        super().__init__(message, is_transient=is_transient)
        self.error_type = error_type


class ModelProtocolError(ModelError):
    """The answer is not what the protocol promises: garbage, or a stream without its terminal event."""

    _without_content = "the answer is not what the protocol promises"


class KnownModelError(ModelError):
    """An error of a kind that the provider's code or text identifies.

    Raised by the library, it is a `ModelStatusError` too, or, inside a stream, a `ModelProviderError`.

    Attributes:
        kind: The kind.
        status: The HTTP status code; None inside a stream.
        error_type: The provider's own name of the error; None when it gave none.
    """

    kind: ModelErrorKind
    status: int | None = None
    error_type: str | None = None


class ContextTooLongError(KnownModelError):
    """The request, with the room for its answer, is longer than the model or the endpoint takes.

    The same request always fails. A shorter one, a compacted conversation or a model with a larger context
    may succeed.
    """

    kind = "context_too_long"


class ContentFilterError(KnownModelError, RefusalError):
    """The provider's filter refused the content of the request, or stopped the answer. Not retried.

    It is a `RefusalError` as well, with the provider's `category` where it names one.
    """

    kind = "content_filter"


class QuotaExhaustedError(KnownModelError):
    """The account has no credit left, or has used up the quota of a day. Not retried."""

    kind = "quota_exhausted"


class ModelNotFoundError(KnownModelError):
    """The endpoint has no such model, or has it no more, or not for this account. Not retried."""

    kind = "model_not_found"


class AuthenticationError(KnownModelError):
    """The endpoint does not accept the API key or the token. Not retried, but for a token that is renewed."""

    kind = "authentication"


class PermissionDeniedError(KnownModelError):
    """The API key, the account or the country may not use the model or the endpoint. Not retried."""

    kind = "permission_denied"


class RateLimitError(KnownModelError):
    """Too many requests or tokens in a short time. A later attempt may succeed."""

    kind = "rate_limit"


class OverloadedError(KnownModelError):
    """The provider has too much to do. A later attempt may succeed."""

    kind = "overloaded"


for _kind in (
    *(ContextTooLongError, ContentFilterError, QuotaExhaustedError, ModelNotFoundError),
    *(AuthenticationError, PermissionDeniedError, RateLimitError, OverloadedError),
):
    _KINDS[_kind.kind] = _kind
for _form in (ModelStatusError, ModelProviderError):
    globals().update(_form.forms_of_kinds(__name__))
