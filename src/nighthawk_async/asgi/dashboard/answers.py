"""Answers of people: their forms, their meanings, and the choices."""

import json
from typing import Any, cast

import msgspec
from pydantic.errors import PydanticInvalidForJsonSchema

from ...errors import ToolValidationError
from ...policies.people.question import Question
from ...policies.people.typed_answer import typed_answer
from ...runtime.validation import type_adapter, type_name
from ...types.json import JsonableValue
from .briefs import Brief
from .refusals import RefusalError, bad_request, not_valid

__all__ = ["AnswerBody", "answer_to", "question_as_json", "visible"]

_MAX_CHOICES = 200


class AnswerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a question or to a request for approval. A question is answered in one of four forms.

    Args:
        stream: What identifies the tree in which the node was seen.
        answer: The answer itself; `approve` or `deny` for a request.
        text: What a person typed: it is read as the type of the question has it, with every digit.
        choice: Which of the choices, from 0.
        default: Whether the question's default is taken.
        digest: The digest of the action that the person saw, for an approval.
        reason: Why it is denied.
    """

    stream: str
    answer: object = msgspec.UNSET
    text: str | None = None
    choice: int | None = None
    default: bool = False
    digest: str | None = None
    reason: str = ""

    @property
    def has_answer(self) -> bool:
        """Whether the answer itself is there."""
        return self.answer is not msgspec.UNSET


def answer_to(question: Question, body: AnswerBody) -> object:
    """The answer to a question, which fits it.

    Args:
        question: The question.
        body: The request.

    Raises:
        RefusalError: The request has no answer, or several, or the answer does not fit.
    """
    if [body.has_answer, body.text is not None, body.choice is not None, body.default].count(True) != 1:
        raise RefusalError(bad_request("The answer is one of answer, text, choice and default."))
    answer = _stated_answer(question, body)
    try:
        question.validate(answer)
    except ToolValidationError as error:
        raise RefusalError(not_valid(str(error))) from None
    return answer


def question_as_json(question: Question) -> Brief:
    """A question. Its choices are texts, since a browser would round large numbers.

    Args:
        question: The question.
    """
    schema = _schema_of(question)
    choices = None if schema is None else _choices_of(schema, schema)
    return {
        "type": "question",
        "prompt": visible(question.prompt),
        "schema": schema,
        "type_name": visible(type_name(question.schema)),
        "choices": None if choices is None else [*map(_choice_as_text, choices)],
        "attempt": question.attempt,
        "error": None if question.error is None else visible(question.error),
        "has_default": question.has_default,
    }


def visible(text: str) -> str:
    """A text in which every character is seen: none that hides, or turns the reading direction around.

    Args:
        text: The text.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def _stated_answer(question: Question, body: AnswerBody) -> object:
    if body.has_answer:
        return body.answer
    if body.text is not None:
        return typed_answer(body.text, question)
    if body.choice is not None:
        schema = _schema_of(question)
        choices = (None if schema is None else _choices_of(schema, schema)) or []
        if not 0 <= body.choice < len(choices):
            raise RefusalError(not_valid("There is no such choice."))
        return choices[body.choice]
    if not question.has_default:
        raise RefusalError(not_valid("The question has no default."))
    return question.default


def _schema_of(question: Question) -> dict[str, JsonableValue] | None:
    try:
        return type_adapter(question.schema).json_schema()
    except PydanticInvalidForJsonSchema:
        return None


def _choices_of(schema: Any, root: Any) -> list[JsonableValue] | None:
    """Return the values that fit a schema, when they can be counted; None when they cannot.

    Args:
        schema: The schema, or a part of it.
        root: The whole schema, which has the definitions.
    """
    match schema:
        case {"enum": list()}:
            choices = cast("list[JsonableValue]", schema["enum"])
            return choices if len(choices) <= _MAX_CHOICES else None
        case {"const": value}:
            return [value]
        case {"type": "boolean"}:
            return [True, False]
        case {"type": "null"}:
            return [None]
        case {"$ref": str(reference)}:
            return _choices_of(root.get("$defs", {}).get(reference.rpartition("/")[2]), root)
        case {"anyOf": list()}:
            parts = [_choices_of(each, root) for each in cast("list[Any]", schema["anyOf"])]
            known = [part for part in parts if part is not None]
            return [value for part in known for value in part] if len(known) == len(parts) else None
        case _:
            return None


def _choice_as_text(value: JsonableValue) -> str:
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
