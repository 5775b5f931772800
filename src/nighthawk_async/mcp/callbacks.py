"""Requests and notifications of a server: questions to people, requests to the model, progress, logs."""

import base64
import logging
import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import mcp_types as protocol
from mcp_types import INTERNAL_ERROR, ErrorData

from ..actors import BareTaskGroup
from ..agent.model_call import load_price, open_stream, report_request, unreported_usage
from ..configuration import StepExecutorConfiguration
from ..errors import ConfigurationError, HumanError, NighthawkError, NoHumanError
from ..kernel.environment import get_environment
from ..kernel.usage_meter import UsageMeter
from ..observation import find_node_writer
from ..policies.people.questions import ask_user
from ..ports import Model
from ..types.json import is_json_object
from ..types.messages import AssistantMessage, BinaryContent, Message, UserContent, UserMessage
from ..types.model import FinishReason, ModelRequest, ResponseFinished, TextDelta, UsageReported
from ..types.usage import Usage
from ..values.error_text import describe_error
from .description import ServerDescription
from .errors import McpError
from .json_data import characters, checked_data
from .methods import form_type

Result = TypeVar("Result")

_LOGGER = logging.getLogger("nighthawk.mcp")
_MAX_NOTES = 100


class CallInFlight:
    """One call, in the task that makes it.

    Args:
        calls: The calls of the session.
    """

    def __init__(self, calls: "CallsInFlight") -> None:
        self._calls = calls
        self._node = find_node_writer()
        self._notes = 0
        self.scope = anyio.CancelScope()
        self.context = copy_context()

    def note_alive(self) -> None:
        """Begin its time limit anew."""
        self.scope.deadline = anyio.current_time() + self._calls.seconds

    async def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report its progress: as attributes of its node, and messages as notes."""
        self.note_alive()
        if self._node is None:
            return
        of_total = {} if total is None else {"mcp.progress.total": total}
        self._node.set_attributes({"mcp.progress": progress, **of_total})
        if self._notes < _MAX_NOTES:
            self._notes += 1
            shown = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            self._node.write("note", f"{shown} {message or ''}".rstrip() + "\n")


class CallsInFlight:
    """The calls of a session in flight.

    Args:
        limit: The seconds in which a call has to give a sign of life; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = math.inf if limit is None else limit
        self._calls: set[CallInFlight] = set()
        self._pauses = 0

    @property
    def seconds(self) -> float:
        """The seconds that a call has from now on."""
        return math.inf if self._pauses else self._limit

    async def run(self, make: Callable[[CallInFlight], Awaitable[Result]]) -> Result:
        """Make a call within its time limit.

        Raises:
            TimeoutError: It gave no sign of life in time; it was cancelled at the server.
        """
        call = CallInFlight(self)
        self._calls.add(call)
        call.note_alive()
        try:
            with call.scope:
                return await make(call)
        finally:
            self._calls.discard(call)
        raise TimeoutError

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Let no time limit run, because the server waits for this side."""
        self._pauses += 1
        self._begin_anew()
        try:
            yield
        finally:
            self._pauses -= 1
            self._begin_anew()

    def _begin_anew(self) -> None:
        for call in self._calls:
            call.note_alive()

    async def in_context_of_call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Call a function in the context of the call that causes it, if there is only one in flight.

        Messages do not say which call they belong to. Otherwise it is the context of the caller: that of the
        run, or, in later versions of the protocol, that of the call.
        """
        if len(self._calls) != 1:
            return await function()
        (call,) = self._calls
        results: list[Result] = []

        async def run() -> None:
            results.append(await function())

        async with BareTaskGroup() as group:
            call.context.copy().run(group.start_soon, run)
        return results[0]


_STOP_REASONS: Mapping[FinishReason, str] = {"stop": "endTurn", "length": "maxTokens"}


async def sampled(server: str, params: protocol.CreateMessageRequestParams) -> protocol.CreateMessageResult:
    """Ask the model of the run's executor for a server.

    Args:
        server: The name of the server.
        params: Its request.

    Raises:
        McpError: The executor asks no model, or the request needs tools.
        BudgetExceededError: A budget has no room for it.
        ModelError: The request failed.
    """
    environment = get_environment()
    executor = environment.step_executor
    model: object = getattr(executor, "model", None)
    if not isinstance(model, Model):
        raise McpError(f"Server {server!r} asks for a model, but the executor of the run has none.")
    if params.tools:
        raise McpError(f"Server {server!r} asks a model with tools, which is not offered.")
    configuration = getattr(executor, "configuration", None)
    settings = dict(
        configuration.model_settings if isinstance(configuration, StepExecutorConfiguration) else {}
    )
    if "native_tools" in settings:
        settings["native_tools"] = None  # a server asks for text alone
    settings["max_tokens"] = min(params.max_tokens, settings.get("max_tokens") or params.max_tokens)
    request = ModelRequest(
        system_prompt=params.system_prompt or "",
        messages=tuple(map(_message, params.messages)),
        settings=settings,
    )
    text, reason = await _response(model, request, environment.usage_meter)
    return protocol.CreateMessageResult(
        role="assistant",
        content=protocol.TextContent(text=characters(text)),
        model=model.name,
        stop_reason=_STOP_REASONS.get(reason or "stop", reason),
    )


async def _response(
    model: Model, request: ModelRequest, meter: UsageMeter
) -> tuple[str, FinishReason | None]:
    await load_price(model)
    parts: list[str] = []
    reason: FinishReason | None = None
    reported: Usage | None = None
    stream = open_stream(model, request)
    async with stream as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    parts.append(text)
                case UsageReported(usage=usage):
                    reported = usage
                case ResponseFinished(reason=finish):
                    reason = finish
                case _:
                    pass
    report_request(meter.add, model, stream, reported or unreported_usage())
    return "".join(parts), reason


def _message(message: protocol.SamplingMessage) -> Message:
    content = tuple(map(_content, message.content_as_list))
    if message.role == "user":
        return UserMessage(content=content)
    texts = [each for each in content if isinstance(each, str)]
    return AssistantMessage(text="".join(texts))


def _content(content: Any) -> UserContent:
    match content:
        case protocol.TextContent():
            return content.text
        case protocol.ImageContent() | protocol.AudioContent():
            return BinaryContent(data=base64.b64decode(content.data), media_type=content.mime_type)
        case _:
            raise ConfigurationError(f"A model cannot be sent {content.type!r} for a server.")


_LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
_MAX_LOGGED_CHARACTERS = 2_000


class Callbacks:
    """Answers the requests of one server, and takes its notifications.

    Args:
        server: The server.
        calls: The calls of its session in flight.
        on_tools_changed: Called when the server has other tools.
    """

    def __init__(
        self, server: ServerDescription, calls: CallsInFlight, on_tools_changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._server = server
        self._calls = calls
        self._on_tools_changed = on_tools_changed

    async def elicit(
        self, context: object, params: protocol.ElicitRequestFormParams | protocol.ElicitRequestURLParams
    ) -> protocol.ElicitResult | ErrorData:
        """Ask a person; declined when there is none."""

        async def ask() -> protocol.ElicitResult:
            if isinstance(params, protocol.ElicitRequestURLParams):
                return await self.ask_to_visit(params)
            return await self._fill_in(params)

        return await self._answered(ask)

    async def _fill_in(self, params: protocol.ElicitRequestFormParams) -> protocol.ElicitResult:
        asked = f"Server {self._server.name!r} asks: {params.message}"
        form = form_type(params.requested_schema)
        if form is None:
            return _decided(await _answer_of(f"{asked} (yes or no)", bool))
        answer = await _answer_of(f"{asked} (null to decline)", cast("Any", form) | None)
        if not is_json_object(answer):
            return _decided(answer)
        return protocol.ElicitResult(action="accept", content=checked_data(answer))

    async def ask_to_visit(self, params: protocol.ElicitRequestURLParams) -> protocol.ElicitResult:
        """Ask a person to open an address."""
        asked = (
            f"Server {self._server.name!r} asks you to open {params.url} in a browser: {params.message} "
            "Answer yes when you have done so, no to decline."
        )
        return _decided(await _answer_of(asked, bool))

    async def sample(
        self, context: object, params: protocol.CreateMessageRequestParams
    ) -> protocol.CreateMessageResult | ErrorData:
        """Ask the model of the run's executor."""
        return await self._answered(lambda: sampled(self._server.name, params))

    async def _answered(self, answer: Callable[[], Awaitable[Any]]) -> Any:
        """Answer a request of the server; a failure is its answer, and no failure of the session."""
        try:
            with self._calls.paused():
                return await self._calls.in_context_of_call(answer)
        except Exception as error:
            _LOGGER.warning("%s: a request of the server failed: %s", self._server.name, type(error).__name__)
            text = describe_error(error) if isinstance(error, NighthawkError) else type(error).__name__
            return ErrorData(code=INTERNAL_ERROR, message=text)

    async def list_roots(self, context: object) -> protocol.ListRootsResult:
        """Return the folders that the server is told to work in."""
        uris = [Path(each).as_uri() for each in self._server.options.roots]
        return protocol.ListRootsResult(roots=[protocol.Root.model_validate({"uri": each}) for each in uris])

    async def log(self, params: protocol.LoggingMessageNotificationParams) -> None:
        """Log a message of the server."""
        name = self._server.name if params.logger is None else f"{self._server.name}, {params.logger}"
        text = str(params.data)[:_MAX_LOGGED_CHARACTERS]
        _LOGGER.log(_LEVELS.get(params.level, logging.ERROR), "%s: %s", name, text)

    async def note(self, message: object) -> None:
        """Take a notification; only changes of the tools matter."""
        if isinstance(message, protocol.ToolListChangedNotification):
            await self._on_tools_changed()


async def _answer_of(prompt: str, schema: object) -> object:
    """Return the answer of a person; None without an answer, and False where nobody can be asked."""
    try:
        return await ask_user(prompt, schema=schema)
    except NoHumanError:
        return False
    except HumanError:
        return None


def _decided(answer: object) -> protocol.ElicitResult:
    if answer is True:
        return protocol.ElicitResult(action="accept", content={})
    return protocol.ElicitResult(action="cancel" if answer is None else "decline")
