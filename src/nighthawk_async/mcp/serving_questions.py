"""Questions of served functions to the person at the client, and calls that several requests continue.

A form of the protocol has fields of plain types. A type of answers that fits no form is asked for as JSON.

From version 2026-07-28 on, a server asks nothing of its own accord: a call that needs an answer returns its
questions, and the client sends the request again, with the answers. The function goes on waiting meanwhile.
"""

import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from ..errors import NoHumanError
from ..policies.people.request import ApprovalRequest, HumanHandler, Question, typed_answer
from ..values.validation import type_adapter
from .json_data import characters
from .serving_results import failure_text, strict_schema

Elicit: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a message and the schema of a form to the client; returns its answer, in JSON."""

_ANSWER = "answer"
_PLAIN_TYPES = ("string", "integer", "number", "boolean")
_FIELD_KEYS = frozenset(
    {
        *("type", "title", "description", "default", "enum"),
        *("minLength", "maxLength", "minimum", "maximum"),
    }
)
_CHOICES_KEYS = frozenset({"type", "title", "description", "default", "minItems", "maxItems"})
_FORMATS = frozenset({"email", "uri", "date", "date-time"})
_AS_JSON = {"type": "string", "description": "The answer, in JSON."}


class Form(Struct, frozen=True, kw_only=True):
    """A form for the answer to a question.

    Args:
        json_schema: The schema of the form.
        is_object: Whether the fields are those of the answer; else there is one field for the whole answer.
    """

    json_schema: dict[str, Any]
    is_object: bool = False

    def read(self, content: Mapping[str, Any], question: Question) -> object:
        """Return the answer that a filled form holds.

        Args:
            content: The values of the fields.
            question: The question.
        """
        if self.is_object:
            return dict(content)
        answer = content.get(_ANSWER)
        return typed_answer(answer, question) if isinstance(answer, str) else answer


def form_of(question: Question) -> Form:
    """Return the form for a question.

    Args:
        question: The question.
    """
    schema = _json_schema_of(question.schema)
    field = _field_of(schema)
    if field is not None:
        return _one_field(field)
    properties: Mapping[str, dict[str, Any]] = schema.get("properties") or {}
    fields = {name: _field_of(each) for name, each in properties.items()}
    if not fields or None in fields.values():
        return _one_field(_AS_JSON)
    required = [name for name in schema.get("required", ()) if not _is_optional(properties[name])]
    whole = {"type": "object", "properties": fields, **({"required": required} if required else {})}
    return Form(json_schema=whole, is_object=True)


def _one_field(field: Mapping[str, Any]) -> Form:
    return Form(json_schema={"type": "object", "properties": {_ANSWER: dict(field)}, "required": [_ANSWER]})


def _json_schema_of(annotation: object) -> dict[str, Any]:
    try:
        schema = type_adapter(annotation).json_schema()
    except Exception:  # code of the user's types may raise anything; the answer is asked for as JSON
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    return schema


def _field_of(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the field of a plain type; None for another one. An optional field may be left empty."""
    choices: list[dict[str, Any]] = schema.get("anyOf") or []
    if _is_optional(schema):
        (schema,) = [each for each in choices if each.get("type") != "null"]
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    kind = schema.get("type")
    if kind == "array":
        return _choices_of(schema)
    if kind not in _PLAIN_TYPES or ("enum" in schema and kind != "string"):
        return None
    field = {name: value for name, value in schema.items() if name in _FIELD_KEYS and value is not None}
    if kind == "string" and schema.get("format") in _FORMATS:
        field["format"] = schema["format"]
    return field


def _choices_of(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the field for a list of choices; None for another list."""
    item = _field_of(schema.get("items") or {})
    if item is None or "enum" not in item:
        return None
    field = {name: value for name, value in schema.items() if name in _CHOICES_KEYS}
    return {**field, "items": {"type": "string", "enum": item["enum"]}}


def _is_optional(schema: Mapping[str, Any]) -> bool:
    choices: list[dict[str, Any]] = schema.get("anyOf") or []
    return len(choices) == 2 and any(each.get("type") == "null" for each in choices)


class ClientPeople:
    """Asks the person at the client. Approvals stay with the handler of the run.

    Args:
        elicit: Sends a form to the client.
        handler: The handler of the run; None for none.
    """

    def __init__(self, elicit: Elicit, handler: HumanHandler | None) -> None:
        self._elicit = elicit
        self._handler = handler

    async def ask(self, question: Question) -> object:
        """Get an answer.

        Raises:
            NoHumanError: The person declined.
        """
        form = form_of(question)
        message = question.prompt
        if question.error is not None:
            message = f"{message}\n\nThe last answer does not fit: {question.error}"
        answer = await self._elicit(characters(message), strict_schema(form.json_schema))
        if answer.get("action") != "accept":
            raise NoHumanError("The person at the client declined to answer.")
        return form.read(answer.get("content") or {}, question)

    async def approve(self, request: ApprovalRequest) -> None:
        """Ask the handler of the run: a client that works for a model must not approve what the model does.

        Raises:
            NoHumanError: The run has no handler.
        """
        if self._handler is None:
            raise NoHumanError(
                "Clients of the MCP server approve nothing: install a handler with "
                "nighthawk_async.run(…, human=…)."
            )
        await self._handler.approve(request)


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
