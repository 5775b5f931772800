"""Answers as JSON: an outcome (specification 8.4), and values of write bindings as data. No I/O.

An answer is a flat object with the fields of its kind and no others. Where a provider's schema subset forbids
a union at the root it travels as `{"result": …}`; both forms are understood.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ExecutionError, ToolValidationError
from ..kernel.conclude import full_type_name
from ..kernel.environment import find_environment
from ..lazy_exports import LazyModule
from ..prompt.scalars import PLAIN_TYPES
from ..types.outcomes import (
    OUTCOME_KINDS,
    BreakStepOutcome,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    Reading,
    ReturnStepOutcome,
    StepOutcome,
)
from ..types.unset import UNSET
from ..values.plain_data import validate_data
from ..wire.json_text import NOT_JSON, decode_json, describe_not_json, has_duplicates
from .answer_form import FIELDS, RETURN_VALUE, SHARED_FIELDS, AnswerForm

if TYPE_CHECKING:
    from . import readings as lenient
else:
    lenient = LazyModule(f"{__package__}.readings")  # most answers are as they should be


class BindingExpression(Struct, frozen=True):
    """A write binding's value in an answer that is given by an expression.

    Args:
        text: The expression.
    """

    text: str


class MadeValue(Struct, frozen=True):
    """A write binding's value that the model made, such as an image.

    Args:
        value: The Python object.
    """

    value: object


class Answer(Struct, frozen=True, kw_only=True, eq=False):
    """The answer of a model.

    Args:
        outcome: The outcome of the block; a value to return is validated.
        bindings: The values of write bindings as data, not yet validated, or by a `BindingExpression`, or a
            `MadeValue`.
        readings: The forms in which it was read; empty for an answer as it should be.
    """

    outcome: StepOutcome
    bindings: Mapping[str, object]
    readings: tuple[Reading, ...] = ()


def parse_answer(text: str, form: AnswerForm, *, is_strict: bool = False) -> Answer:
    """Parse an answer.

    Args:
        text: The text of the answer.
        form: The ways to answer the block.
        is_strict: Whether nothing is read that is not as it should be; see `readings`.

    Raises:
        ExecutionError: The text is not JSON, or not an answer to this block; the message names the fault and
            its place.
    """
    return _parsed(
        lambda: parse_json_object(text),
        lambda readings: lenient.read_answer(text, form, readings),
        form,
        is_strict=is_strict,
    )


def has_answer(text: str, form: AnswerForm) -> bool:
    """Whether a text holds an object that ends the block, in a fence or among words.

    Args:
        text: The text of a response without calls.
        form: The ways to answer the block.
    """
    try:
        fields = lenient.read_answer(text, form, [])
    except lenient.NotOneMeaningError:
        return False
    return fields.get("kind") in form.allowed_kinds


def answer_from_mapping(data: Mapping[str, Any], form: AnswerForm, *, is_strict: bool = False) -> Answer:
    """An answer from its decoded JSON object.

    Args:
        data: The object.
        form: The ways to answer the block.
        is_strict: As for `parse_answer`.

    Raises:
        ExecutionError: It is no answer to this block; the message names the fault and its place.
    """
    return _parsed(
        lambda: data, lambda readings: lenient.read_fields(data, form, readings), form, is_strict=is_strict
    )


def _parsed(
    strictly: Callable[[], Mapping[str, Any]],
    loosely: Callable[[list[Reading]], Mapping[str, Any]],
    form: AnswerForm,
    *,
    is_strict: bool,
) -> Answer:
    """An answer as it should be; of one that is not, what it can mean if that is one thing."""
    try:
        answer = _answer(strictly(), form, ())
    except ExecutionError:
        if is_strict:
            raise
        readings: list[Reading] = []
        try:
            fields = loosely(readings)
        except lenient.NotOneMeaningError:
            fields = None
        if fields is None:
            raise  # the error of the answer, which says what is wrong with it
        return _answer(fields, form, readings)
    return answer if is_strict or not answer.bindings else _with_read_bindings(answer, form)


def _with_read_bindings(answer: Answer, form: AnswerForm) -> Answer:
    """The answer with values of write bindings in the form that their types have in JSON."""
    for name in answer.bindings:
        if id(form.binding_types.get(name)) not in PLAIN_TYPES:
            break
    else:
        return answer  # as in most answers
    readings: list[Reading] = []
    bindings = lenient.read_values(answer.bindings, form.binding_types, readings)
    return replace(answer, bindings=bindings, readings=tuple(dict.fromkeys(readings))) if readings else answer


def _answer(data: Mapping[str, Any], form: AnswerForm, readings: Sequence[Reading]) -> Answer:
    if set(data) == {"result"} and isinstance(data["result"], dict):
        data = cast("dict[str, Any]", data["result"])
    results: Mapping[str, BindingExpression] = {}
    returned: str | None = None
    if form.takes_results:
        results, returned, data = _results(data, form)
    kind = data.get("kind")
    if not _is_kind(kind) or kind not in form.allowed_kinds:
        misplaced = "; the field 'kind' stands beside 'bindings', not below 'outcome'"
        raise ExecutionError(
            f"the outcome kind {kind!r} is not allowed here; allowed: {', '.join(form.allowed_kinds)}"
            + misplaced * (kind is None and "outcome" in data)
        ).caused_by("outcome_kind")
    unknown = sorted(
        name
        for name, value in data.items()
        if (value is not None or name in form.nullable) and name not in (*SHARED_FIELDS, *FIELDS[kind])
    )
    if unknown:
        is_value = any(name in form.bindings for name in unknown)
        raise ExecutionError(
            f"an outcome of kind '{kind}' has no field {', '.join(map(repr, unknown))}"
            + "; the values of variables belong into its field 'bindings'" * is_value
        ).caused_by("outcome_fields")
    bindings = _bindings(data.get("bindings"), form)
    expressions = {**_expressions(data.get("expressions"), form), **results}
    if both := bindings.keys() & expressions.keys():
        raise ExecutionError(
            f"{', '.join(sorted(both))}: give a value in bindings or "
            f"{'a name in results' if results else 'an expression in expressions'}, not both"
        ).caused_by("outcome_fields")
    return Answer(
        outcome=_outcome(kind, data, form)
        if returned is None
        else ReturnStepOutcome(return_expression=returned),
        bindings={**bindings, **expressions},
        readings=tuple(dict.fromkeys(readings)),
    )


def _results(
    data: Mapping[str, Any], form: AnswerForm
) -> tuple[Mapping[str, BindingExpression], str | None, Mapping[str, Any]]:
    """The write bindings and the return value that are given by names of results, and the other fields."""
    given, returned = data.get("results"), _text(data, "return_result")
    left = {name: value for name, value in data.items() if name not in ("results", "return_result")}
    if returned is not None and (data.get("kind") != "return" or data.get("return_value") is not None):
        raise ExecutionError(
            "return_result belongs to an outcome of kind 'return', which has no return_value then"
        ).caused_by("outcome_fields")
    if given is None:
        return {}, returned, left
    names = (*form.bindings, *form.expressions)
    results = cast("dict[str, object]", given) if isinstance(given, dict) else {"": given}
    for name, result in results.items():
        if name not in names or not isinstance(result, str | None):
            raise ExecutionError(
                "the field 'results' is an object: names of results of tools, by the names of variables; "
                f"the block has: {', '.join(names) or 'none'}"
            ).caused_by("binding_name")
    found = {name: BindingExpression(each) for name, each in results.items() if isinstance(each, str)}
    return found, returned, left


def _expressions(given: object, form: AnswerForm) -> dict[str, BindingExpression]:
    """The expressions of write bindings; those that are null leave them as they are."""
    if given is None:
        return {}
    names = (*form.bindings, *form.expressions) if form.takes_expressions else ()
    if not isinstance(given, dict):
        raise ExecutionError(
            f"the field 'expressions' must be an object, not {type(given).__name__}"
        ).caused_by("outcome_fields")
    expressions = cast("dict[str, object]", given)
    for name, text in expressions.items():
        if name not in names:
            raise ExecutionError(
                f"expressions.{name}: the block has no such variable to set by an expression; "
                f"it has: {', '.join(names) or 'none'}"
            ).caused_by("binding_name")
        if not isinstance(text, str | None):
            raise ExecutionError(
                f"expressions.{name}: an expression is a text, not {type(text).__name__}"
            ).caused_by("outcome_fields")
    return {name: BindingExpression(text) for name, text in expressions.items() if isinstance(text, str)}


def _bindings(given: object, form: AnswerForm) -> dict[str, object]:
    """The values of write bindings; null leaves one as it is, unless its type takes None."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ExecutionError(f"the field 'bindings' must be an object, not {type(given).__name__}").caused_by(
            "outcome_fields"
        )
    values = cast("dict[str, object]", given)
    if form.media:  # whatever stands for one that was made
        values = {name: value for name, value in values.items() if name not in form.media}
    for name in values:
        if name in form.expressions:
            raise ExecutionError(
                f"bindings.{name}: this variable cannot be given as data; "
                + ("set it with an expression" if form.takes_expressions else "name a result in results")
            ).caused_by("binding_name")
        if name not in form.bindings:
            raise ExecutionError(
                f"bindings.{name}: the block has no such variable to set; "
                f"it has: {', '.join((*form.bindings, *form.expressions)) or 'none'}"
            ).caused_by("binding_name")
    return {
        name: form.without_nulls(name, value)
        for name, value in values.items()
        if value is not None or name in form.nullable or form.takes_data_alone
    }


def _outcome(kind: OutcomeKind, data: Mapping[str, Any], form: AnswerForm) -> StepOutcome:
    match kind:
        case "pass":
            return PassStepOutcome()
        case "return":
            return _return_outcome(data, form)
        case "break":
            return BreakStepOutcome()
        case "continue":
            return ContinueStepOutcome()
        case _:  # raise
            return _raise_outcome(data, form)


def _return_outcome(data: Mapping[str, Any], form: AnswerForm) -> ReturnStepOutcome:
    expression = _text(data, "return_expression")
    value: object = data.get("return_value", UNSET)
    if expression:
        if value is not None and value is not UNSET:
            raise ExecutionError(
                "an outcome of kind 'return' has a return_value or a return_expression, not both"
            ).caused_by("outcome_fields")
        if not form.takes_expressions:
            raise ExecutionError("the return value has to be given in the field 'return_value'").caused_by(
                "outcome_fields"
            )
        return ReturnStepOutcome(return_expression=expression)
    if RETURN_VALUE in form.media:
        return ReturnStepOutcome()  # it takes a medium that was made
    if value is UNSET or (value is None and form.return_value is None):
        fields = [
            *(("return_expression",) if form.takes_expressions else ()),
            *(("return_value",) if form.return_value is not None else ()),
            *(("return_result",) if form.takes_results else ()),
        ]
        raise ExecutionError(
            f"an outcome of kind 'return' needs the field {' or '.join(map(repr, fields))}"
        ).caused_by("outcome_fields")
    if form.return_value is None:
        reason = "the return value cannot be given as data; give it by a return_expression"
        if form.bindings or form.expressions:
            reason = (
                "a block that sets variables gives the return value by a return_expression; it ends the "
                "whole function"
            )
        raise ExecutionError(f"return_value: {reason}").caused_by("return_value")
    value = form.without_nulls(RETURN_VALUE, value)
    try:
        returned = validate_data(value, form.return_type, subject=RETURN_VALUE)
    except ToolValidationError as error:
        raise (
            ExecutionError(_at_field(str(error)))
            .without_content(_at_field(error.message_without_content))
            .caused_by("return_value")
        ) from error
    environment = find_environment()
    if environment is not None and environment.step is not None:
        environment.step.context.converted["return"] = returned
    return ReturnStepOutcome(return_value=returned)


def _at_field(message: str) -> str:
    """Return the error of the return value, by the name of its field."""
    return f"return_value{message.removeprefix(RETURN_VALUE)}"


def _raise_outcome(data: Mapping[str, Any], form: AnswerForm) -> RaiseStepOutcome:
    message, expression = _text(data, "raise_message"), _text(data, "raise_expression")
    error_type = _text(data, "raise_error_type")
    if expression:
        if message or error_type is not None:
            raise ExecutionError(
                "an outcome of kind 'raise' has a raise_message, and perhaps a raise_error_type, or it has a "
                "raise_expression"
            ).caused_by("outcome_fields")
        if not form.takes_expressions:
            raise ExecutionError(
                "raise_expression is not allowed here: there are no expressions; give a raise_message"
            ).caused_by("raise_expression")
        return RaiseStepOutcome(raise_expression=expression)
    if message is None:
        fields = "'raise_message'" + " or 'raise_expression'" * form.raises_objects
        raise ExecutionError(f"an outcome of kind 'raise' needs the field {fields}").caused_by(
            "outcome_fields"
        )
    if error_type is not None and full_type_name(error_type, form.raise_error_types) is None:
        raise ExecutionError(
            f"raise_error_type {error_type!r} is not allowed here; "
            f"allowed: {', '.join(form.raise_error_types) or 'none, leave it out'}"
        ).caused_by("raise_type")
    return RaiseStepOutcome(raise_message=message, raise_error_type=error_type)


def _text(data: Mapping[str, Any], name: str) -> str | None:
    """A field that holds text; None when it is left out."""
    value = data.get(name)
    if not isinstance(value, str | None):
        raise ExecutionError(
            f"the outcome's field '{name}' must be a string, not {type(value).__name__}"
        ).caused_by("outcome_fields")
    return value


def _is_kind(value: object) -> TypeGuard[OutcomeKind]:
    return value in OUTCOME_KINDS


def parse_json_object(text: str) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        ExecutionError: The text is not JSON, or not an object.
    """
    try:
        data: object = decode_json(text)  # strict: unlike the standard library it takes no NaN
    except NOT_JSON as error:
        reason = describe_not_json(error, text)
        raise ExecutionError(
            f"the answer is not JSON: {reason}; write JSON alone, without a fence or other text"
        ).caused_by("not_json") from error
    if not isinstance(data, dict):
        raise ExecutionError(f"the answer is not a JSON object but {type(data).__name__}").caused_by(
            "not_json"
        )
    if has_duplicates(text):
        raise ExecutionError("the answer gives a field twice, with different values").caused_by(
            "outcome_fields"
        )
    return cast("dict[str, Any]", data)
