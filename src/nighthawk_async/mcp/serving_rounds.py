"""Calls that continue over several requests of their client.

From version 2026-07-28 on, a server asks nothing of its own accord: a call that needs an answer returns its
questions, and the client sends the request again, with the answers. The function goes on waiting meanwhile.
"""

import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup

from .serving_questions import Elicit
from .serving_results import failure_text

_MAX_WAIT_SECONDS = 600.0
"""The time within which a client has to answer. Then the call is cancelled."""

_NO_SUCH_CALL = failure_text(
    "The call does not wait for an answer any more, or waits in another server. Call the tool again."
)

RunCall = Callable[[Elicit], Awaitable[dict[str, Any]]]
"""Runs a call, which asks through its argument, and returns its result."""


class _Round:
    """A call, its open questions, and its result.

    Args:
        tool: The name of the tool.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.state = secrets.token_urlsafe(24)
        self.scope = anyio.CancelScope()
        self.result: dict[str, Any] | None = None
        self._questions: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._number = 0
        self._changed = anyio.Event()

    async def elicit(self, message: str, schema: dict[str, Any]) -> Mapping[str, Any]:
        """Ask, and wait for the answer."""
        self._number += 1
        key = f"question-{self._number}"
        self._questions[key] = {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": message, "requestedSchema": schema},
        }
        self.change()
        try:
            while key not in self._answers:
                await self._changed.wait()
            return self._answers.pop(key)
        finally:
            self._questions.pop(key, None)

    def take(self, answers: Mapping[str, Any]) -> None:
        """Take the answers of the client to open questions."""
        for key in self._questions.keys() & answers.keys():
            self._answers[key] = answers[key]
            del self._questions[key]
        self.change()

    async def next_result(self) -> dict[str, Any]:
        """Wait for the result, or for questions."""
        self.scope.deadline = math.inf
        while self.result is None and not self._questions:
            await self._changed.wait()
        if self.result is not None:
            return self.result
        self.scope.deadline = anyio.current_time() + _MAX_WAIT_SECONDS
        return {
            "resultType": "input_required",
            "inputRequests": dict(self._questions),
            "requestState": self.state,
        }

    def change(self) -> None:
        """Wake those who wait for a change."""
        self._changed.set()
        self._changed = anyio.Event()


class Rounds:
    """The calls that continue over several requests.

    Args:
        task_group: The task group of their tasks.
    """

    def __init__(self, task_group: TaskGroup) -> None:
        self._task_group = task_group
        self._rounds: dict[str, _Round] = {}

    async def begin(self, tool: str, run: RunCall) -> dict[str, Any]:
        """Begin a call; return its result, or its first questions.

        Args:
            tool: The name of the tool.
            run: Runs it.
        """
        made = _Round(tool)
        self._rounds[made.state] = made
        self._task_group.start_soon(self._carry_out, made, run)
        return await self._next(made)

    async def continue_with(self, tool: str, state: str, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Continue a call; return its result, or further questions.

        Args:
            tool: The name of the tool.
            state: The state that came with the questions.
            answers: The answers by question, in JSON.
        """
        found = self._rounds.get(state)
        if found is None or found.tool != tool:
            return _NO_SUCH_CALL
        found.take(answers)
        return await self._next(found)

    async def _next(self, found: _Round) -> dict[str, Any]:
        try:
            return await found.next_result()
        except BaseException:  # the client has left, or cancels the call
            found.scope.cancel()
            raise

    async def _carry_out(self, made: _Round, run: RunCall) -> None:
        try:
            with made.scope:
                made.result = await run(made.elicit)
        finally:
            del self._rounds[made.state]
            made.result = made.result or _NO_SUCH_CALL
            made.change()
