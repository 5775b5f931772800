"""Requests and notifications of a server: questions to people, requests to the model, folders, logs."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import mcp_types as protocol
from mcp_types import INTERNAL_ERROR, ErrorData

from ..errors import HumanError, NighthawkError, NoHumanError
from ..policies.people.questions import ask_user
from ..types.json import is_json_object
from ..values.error_text import describe_error
from .description import ServerDescription
from .in_flight import CallsInFlight
from .json_data import checked_data
from .sampling import sampled
from .schema_types import form_type

_LOGGER = logging.getLogger("nighthawk.mcp")
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
