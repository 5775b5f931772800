"""Questions of served functions to the person at the client, as elicitations of the protocol.

A form of the protocol has fields of plain types. A type of answers that fits no form is asked for as JSON.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from ..errors import NoHumanError
from ..policies.people.request import ApprovalRequest, HumanHandler, Question, typed_answer
from ..values.validation import type_adapter
from .json_data import characters
from .serving_schemas import strict_schema

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
