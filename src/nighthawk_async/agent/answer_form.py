"""The ways to answer a block: one description for every outcome transport, made once for a site.

A value travels as data, JSON under the JSON Schema of its type, wherever the type has one that the provider
takes. Any other value is given by an expression; the prompt and a log record say for which variable, and why.

All JSON Schemas of a block's answer are made from its `AnswerForm`. No I/O.
"""

import logging
from collections.abc import Hashable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import AnnotationError
from ..kernel.context import StepContext
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..lazy_exports import LazyModule
from ..types.messages import ToolDefinition
from ..types.model import OutcomeTransport
from ..types.outcomes import OutcomeKind
from ..values.plain_data import JsonSchemas, data_schemas
from ..values.validation import reason_without_schema, type_name
from ..wire.openai_schemas import is_strict_schema
from .schemas import (
    Endpoint,
    OptionalParts,
    allows_null,
    compact_schema,
    described_schema,
    has_two_nulls,
    optional_parts_of,
    or_null,
    refusal_of,
    strict_schema,
    terse_schema,
    with_null_parts,
)

if TYPE_CHECKING:
    from ..values import media_types
else:
    media_types = LazyModule("nighthawk_async.values.media_types")  # most values are of plain types

RETURN_VALUE = "the return value"
"""The name of the return value in errors and records."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pass": (),
    "return": ("return_value", "return_expression"),
    "break": (),
    "continue": (),
    "raise": ("raise_message", "raise_error_type", "raise_expression"),
}
"""The fields of each outcome kind."""

SHARED_FIELDS: Final = ("kind", "bindings", "expressions")
"""The fields of all outcome kinds."""

_logger = logging.getLogger("nighthawk")

_Schema = Mapping[str, Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_Subject: TypeAlias = str
"""The name of a value in errors and records."""
_FIELDS_OF_OUTCOMES: Mapping[str, _Schema] = {
    f"field{at}": {"type": ["string", "null"] if at < 4 else "string"} for at in range(8)
}
"""A lower bound, in the units that endpoints limit, of the parts of an answer other than the values."""


class AnswerForm(Struct, frozen=True, kw_only=True, eq=False):
    """The ways to answer a block.

    Args:
        allowed_kinds: The outcome kinds.
        raise_error_types: The names a `raise` outcome may give as `raise_error_type`.
        raises_objects: Whether a `raise` outcome may give an exception object by an expression.
        bindings: The JSON Schemas of the write bindings that may be given as data.
        expressions: The write bindings that have to be given by an expression, with the reasons.
        return_value: The JSON Schema of the return value; None if it has to be given by an expression, as in
            a block with write bindings: a value beside them would be taken for one of theirs.
        return_type: The type of the return value.
        binding_types: The types of the write bindings that may be given as data.
        nullable: The write bindings whose type takes None.
        media: The types of the write bindings, and of `RETURN_VALUE`, that take media that the model made.
        definitions: The schemas that `$ref` refers to.
        takes_expressions: Whether expressions may be given at all; they may not without tools.
        takes_results: Whether values may be given by the names of results of tools.
        is_strict: Whether every part is required, so that an omitted one is null.
        optional_parts: If so, the parts of values that may be left out, by the names of the write bindings
            and `RETURN_VALUE`.
        is_concise: Whether the schemas say what there is to say of their types, so that stubs need not, and
            each write binding may be given by an expression.
    """

    allowed_kinds: tuple[OutcomeKind, ...]
    raise_error_types: tuple[str, ...] = ()
    raises_objects: bool = False
    bindings: Mapping[str, _Schema] = field(default_factory=lambda: _NOTHING)
    expressions: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    return_value: _Schema | None = None
    return_type: object = object
    binding_types: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    nullable: frozenset[str] = frozenset()
    media: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    definitions: Mapping[str, _Schema] = field(default_factory=lambda: _NOTHING)
    takes_expressions: bool = True
    takes_results: bool = False
    is_strict: bool = False
    optional_parts: Mapping[str, OptionalParts] = field(default_factory=lambda: _NOTHING)
    is_concise: bool = False

    @property
    def takes_data_alone(self) -> bool:
        """Whether every value is given as data, and none can be left out."""
        return not self.takes_expressions and not self.takes_results

    @property
    def expressible(self) -> tuple[str, ...]:
        """The write bindings for which the answer may have expressions."""
        return (*self.bindings, *self.expressions) if self.is_concise and self.takes_expressions else ()

    def without_nulls(self, name: str, value: object) -> object:
        """The value of a write binding, or of `RETURN_VALUE`, without nulls for parts that are left out."""
        parts = self.optional_parts.get(name)
        return value if parts is None else parts.without_nulls(value)


class _Site(Struct, frozen=True, kw_only=True, eq=False):
    """The facts on which the form of a block's answers depends; usually the same at every step of a block."""

    step_id: str
    allowed_kinds: tuple[OutcomeKind, ...]
    binding_types: tuple[tuple[str, object], ...]
    return_type: object
    raise_error_types: tuple[str, ...]
    raises_objects: bool
    endpoint: Endpoint
    takes_expressions: bool
    takes_results: bool
    is_concise: bool


_MOST_FORMS = 1024
_forms: dict[tuple[object, ...], AnswerForm] = {}
"""The forms made so far. Annotations in a function's body are evaluated at every step, so the keys compare
metadata by its content."""


def answer_form_of(
    context: StepContext,
    transport: OutcomeTransport,
    endpoint: Endpoint,
    *,
    returned: object,
    is_concise: bool = False,
    evaluates: bool = True,
    takes_results: bool = False,
) -> AnswerForm:
    """The ways to answer a block.

    Args:
        context: The state of the step.
        transport: The transport of outcomes.
        endpoint: The endpoint to which the form is sent.
        returned: The type of the return value; `object` if it is unknown.
        is_concise: See `AnswerForm`.
        evaluates: Whether expressions are evaluated.
        takes_results: See `AnswerForm`.

    Raises:
        AnnotationError: One of the types has no JSON, and no value of it can be given in another way.
    """
    takes_expressions = evaluates and transport != "direct"
    names = tuple(context.raise_error_types)
    types = tuple([(name, context.binding_types.get(name, object)) for name in context.write_names])
    returned = returned if "return" in context.allowed_kinds else object
    raises_objects = takes_expressions and (bool(names) or bool(context.named_exceptions()))
    key = (
        context.step_id,
        context.allowed_kinds,
        tuple([(name, each if type(each) is type else _comparable(each)) for name, each in types]),
        _comparable(returned),
        names,
        raises_objects,
        transport,
        endpoint,
        is_concise,
        evaluates,
        takes_results,
    )
    known = _forms.get(key)
    if known is not None:
        return known
    site = _Site(
        step_id=context.step_id,
        allowed_kinds=context.allowed_kinds,
        binding_types=types,
        return_type=returned,
        raise_error_types=names,
        raises_objects=raises_objects,
        endpoint=endpoint,
        takes_expressions=takes_expressions,
        takes_results=takes_results,
        is_concise=is_concise,
    )
    form = _forms[key] = _form(site)
    if len(_forms) > _MOST_FORMS:
        _forms.pop(next(iter(_forms)), None)
    return form


def _comparable(annotation: object) -> Hashable:
    """A key that is equal for annotations of the same type."""
    arguments: tuple[object, ...] = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return (Annotated, _comparable(arguments[0]), *map(repr, arguments[1:]))
    if get_origin(annotation) is Literal:
        return (Literal, *((type(each), repr(each)) for each in arguments))
    if arguments:
        return (get_origin(annotation), *map(_comparable, arguments))
    return annotation if isinstance(annotation, Hashable) else repr(annotation)


def _form(site: _Site) -> AnswerForm:
    subjects = {f"write binding '{name}'": name for name, _ in site.binding_types}
    types = {f"write binding '{name}'": annotation for name, annotation in site.binding_types}
    if "return" in site.allowed_kinds and not (types and site.takes_expressions):
        types[RETURN_VALUE] = site.return_type
    given, refused, together = _schemas_of(types, site)
    compact = described_schema if site.is_concise else compact_schema
    schemas = {subject: compact(schema) for subject, schema in given.items()}
    definitions = {name: compact(schema) for name, schema in together.definitions.items()}
    form = AnswerForm(
        allowed_kinds=site.allowed_kinds,
        raise_error_types=site.raise_error_types,
        raises_objects=site.raises_objects,
        bindings={subjects[each]: schema for each, schema in schemas.items() if each in subjects},
        expressions={subjects[each]: reason for each, reason in refused.items() if each in subjects},
        return_value=schemas.get(RETURN_VALUE),
        return_type=site.return_type,
        binding_types={
            name: each for name, each in site.binding_types if f"write binding '{name}'" in schemas
        },
        nullable=frozenset(
            subjects[each]
            for each, schema in schemas.items()
            if each in subjects and allows_null(schema, definitions)
        ),
        media={
            subjects.get(each, each): types[each] for each, reason in refused.items() if reason == _IS_MADE
        },
        definitions=definitions,
        takes_expressions=site.takes_expressions,
        takes_results=site.takes_results,
        is_concise=site.is_concise,
    )
    if not site.endpoint.enforces_strict_schemas:
        return form
    named = {subjects.get(each, each): schema for each, schema in given.items()}
    parts = {subjects.get(each, each): optional_parts_of(types[each]) for each in given}
    optional = {name: each for name, each in parts.items() if each is not None}
    return _enforced_form(form, named, together.definitions, optional) or form


def _schemas_of(
    types: Mapping[_Subject, object], site: _Site
) -> tuple[Mapping[_Subject, _Schema], Mapping[_Subject, str], JsonSchemas]:
    """The schemas of types that may be given as data, the reasons why others may not, and all schemas."""
    refused: dict[_Subject, str] = {}
    for subject, annotation in types.items():
        if _takes_media(annotation):
            refused[subject] = _IS_MADE
        elif (reason := _reason_against(annotation, site.endpoint)) is not None:
            refused[subject] = reason
            _report_refused(site, subject, annotation, reason)
    while True:
        left = {subject: annotation for subject, annotation in types.items() if subject not in refused}
        together = data_schemas(tuple(left.values()))
        definitions = {name: compact_schema(schema) for name, schema in together.definitions.items()}
        values = {f"value{at}": compact_schema(schema) for at, schema in enumerate(together.schemas)} | {
            **_FIELDS_OF_OUTCOMES
        }
        reason = refusal_of({"type": "object", "properties": values}, definitions, site.endpoint)
        if reason is None or not left:
            return dict(zip(left, together.schemas, strict=True)), refused, together
        largest = max(left, key=lambda subject: len(repr(data_schemas((types[subject],)))))
        refused[largest] = reason
        _report_refused(site, largest, types[largest], reason)


_IS_MADE = "bytes are not written as data; it takes an image or a sound that the model makes"


def _takes_media(annotation: object) -> bool:
    """Whether a value of a type may be a medium that the model made."""
    if type(annotation) is type and annotation.__module__ == "builtins":  # as most are
        return False
    return bool(media_types.media_classes(annotation))


def _reason_against(annotation: object, endpoint: Endpoint) -> str | None:
    """The reason why a value of a type cannot be given as data; None when it can."""
    try:
        alone = data_schemas((annotation,))
    except Exception as error:  # code of the user's types may raise anything
        return f"it has no JSON Schema: {reason_without_schema(error)}".rstrip(".")
    definitions = {name: compact_schema(schema) for name, schema in alone.definitions.items()}
    return refusal_of(compact_schema(alone.schemas[0]), definitions, endpoint)


def _report_refused(site: _Site, subject: str, annotation: object, reason: str) -> None:
    if reason == _IS_MADE:
        return
    if not site.takes_expressions and not site.takes_results:
        raise AnnotationError(
            f"step {site.step_id}: {subject} has the type {type_name(annotation)}, so the direct outcome "
            f"transport, and a block with code='none', cannot ask for it: {reason}; use another type, or "
            "outcome_transport='tool' and code='shown'"
        )
    _logger.info(
        "step %s: %s of type %s has to be given by %s: %s",
        site.step_id,
        subject,
        type_name(annotation),
        "an expression" if site.takes_expressions else "the name of a result",
        reason,
    )


def _enforced_form(
    form: AnswerForm,
    given: Mapping[str, _Schema],
    definitions: Mapping[str, _Schema],
    optional_parts: Mapping[str, OptionalParts],
) -> AnswerForm | None:
    """The form with schemas that the endpoint enforces; None if it would not, or null had two meanings.

    Args:
        form: The form.
        given: The schemas of the values, with defaults, by the names of write bindings and `RETURN_VALUE`.
        definitions: The schemas that they refer to, with defaults.
        optional_parts: See `AnswerForm`.
    """
    if form.nullable and not form.takes_data_alone:
        return None  # for these variables null is None, so it cannot also leave them as they are
    if any(has_two_nulls(each, definitions) for each in (*given.values(), *definitions.values())):
        return None

    def enforced(schema: _Schema) -> _Schema:
        return strict_schema(compact_schema(with_null_parts(schema, definitions)))

    strict = {name: enforced(schema) for name, schema in given.items()}
    strict_definitions = {name: enforced(schema) for name, schema in definitions.items()}
    together = object_schema(strict) | {"$defs": strict_definitions}
    if not is_strict_schema(together):
        return None
    return replace(
        form,
        return_value=strict.pop(RETURN_VALUE, None),
        bindings=strict,
        definitions=strict_definitions,
        is_strict=True,
        optional_parts=optional_parts,
    )


_TEXT: _Schema = {"type": "string"}


@lru_cache(maxsize=1024)
def flat_schema(form: AnswerForm) -> dict[str, Any]:
    """One object schema without a union, for the arguments of `nh_outcome`."""
    properties: dict[str, Any] = {"kind": {"type": "string", "enum": list(form.allowed_kinds)}}
    if form.bindings:
        properties["bindings"] = _bindings_schema(form)
    if form.expressible:
        properties["expressions"] = object_schema(dict.fromkeys(form.expressible, _TEXT), ())
    properties |= _results(form)
    for kind in form.allowed_kinds:
        for fields in _alternatives(kind, form):
            properties |= fields
    if not form.is_strict:
        return object_schema(properties, required=("kind",)) | _definitions(form)
    nullable = {name: schema if name == "kind" else or_null(schema) for name, schema in properties.items()}
    return object_schema(nullable) | _definitions(form)


@lru_cache(maxsize=1024)
def outcome_tool(form: AnswerForm) -> ToolDefinition:
    """The tool that delivers the outcome; its arguments are exactly the final JSON of specification 8.4."""
    return ToolDefinition(name=OUTCOME_TOOL_NAME, description="End the block.", parameters=tool_schema(form))


def tool_schema(form: AnswerForm) -> dict[str, Any]:
    """The flat schema as the tool is sent: in the fewest words, unless the endpoint enforces it as it is."""
    schema = flat_schema(form)
    if form.is_strict:
        return schema
    opened = opened_schema(schema)
    inner = {name: schema["properties"].get(name) for name in ("bindings", "expressions", "results")}
    opened["properties"] = schema["properties"] | {
        name: opened_schema(each) for name, each in inner.items() if each is not None
    }
    return terse_schema(opened)


def opened_schema(schema: _Schema) -> dict[str, Any]:
    """An object's schema without `additionalProperties`; unknown properties are refused anyway."""
    return {name: value for name, value in schema.items() if name != "additionalProperties"}


@lru_cache(maxsize=1024)
def wrapped_schema(form: AnswerForm) -> dict[str, Any]:
    """A union of the variants of all kinds below `result`, for a provider's structured output."""
    variants = [variant for kind in form.allowed_kinds for variant in variant_schemas(kind, form)]
    result = {"anyOf": variants} if len(variants) > 1 else variants[0]
    return object_schema({"result": result}) | _definitions(form)


def variant_schemas(kind: OutcomeKind, form: AnswerForm) -> list[dict[str, Any]]:
    """The object schemas of one kind: one for each way to give its data, with exactly its fields."""
    return [_variant(kind, fields, form) for fields in _alternatives(kind, form)]


def object_schema(properties: Mapping[str, Any], required: "tuple[str, ...] | None" = None) -> dict[str, Any]:
    """A closed object; all properties are required unless `required` is given."""
    names = list(properties if required is None else required)
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if names or not properties:
        schema["required"] = names
    return schema | {"additionalProperties": False}


def _variant(kind: OutcomeKind, fields: Mapping[str, _Schema], form: AnswerForm) -> dict[str, Any]:
    # Strict structured output wants every property required, so "left out" is spelled null.
    fields = {
        name: or_null(schema) if name == "raise_error_type" else schema for name, schema in fields.items()
    }
    properties: dict[str, Any] = {"kind": {"type": "string", "enum": [kind]}}
    results = _results(form)
    if not form.bindings or (kind == "raise" and form.takes_data_alone):
        return _with_optional(properties | fields, results, form)
    bindings = _bindings_schema(form)
    if form.is_strict and not form.takes_data_alone:
        bindings = or_null(bindings)
    if form.takes_data_alone or form.is_strict:
        return _with_optional({**properties, "bindings": bindings, **fields}, results, form)
    required = ("kind", *fields)
    return object_schema({**properties, "bindings": bindings, **results, **fields}, required)


def _with_optional(
    properties: Mapping[str, Any], optional: Mapping[str, Any], form: AnswerForm
) -> dict[str, Any]:
    """An object with parts that may be left out, or be null where each part is required."""
    if form.is_strict or not optional:
        return object_schema({**properties, **{name: or_null(each) for name, each in optional.items()}})
    return object_schema({**properties, **optional}, tuple(properties))


def _results(form: AnswerForm) -> dict[str, Any]:
    """The field for write bindings that are given by the names of results."""
    names = (*form.bindings, *form.expressions) if form.takes_results else ()
    text = or_null(_TEXT) if form.is_strict else _TEXT
    if not names:
        return {}
    fields = dict.fromkeys(names, text)
    return {"results": object_schema(fields, None if form.is_strict else ())}


def _bindings_schema(form: AnswerForm) -> dict[str, Any]:
    if form.takes_data_alone:
        return object_schema(form.bindings)
    if not form.is_strict:
        return object_schema(form.bindings, ())
    return object_schema({name: or_null(schema) for name, schema in form.bindings.items()})


def _alternatives(kind: OutcomeKind, form: AnswerForm) -> list[dict[str, Any]]:
    """The ways to give the data of a kind, each as the fields it takes."""
    ways: list[dict[str, Any]] = []
    if kind == "return":
        if form.return_value is not None:
            ways.append({"return_value": form.return_value})
        if form.takes_expressions:
            ways.append({"return_expression": _TEXT})
        if form.takes_results:
            ways.append({"return_result": _TEXT})
    elif kind == "raise":
        names = list(form.raise_error_types)
        typed = {"raise_error_type": {"type": "string", "enum": names}} if names else {}
        ways.append({"raise_message": _TEXT, **typed})
        if form.raises_objects:
            ways.append({"raise_expression": _TEXT})
    return ways or [{}]


def _definitions(form: AnswerForm) -> dict[str, Any]:
    return {"$defs": dict(form.definitions)} if form.definitions else {}
