"""The declared types of what expressions name: variables, fields, items, results of natural functions.

A value that has a declared type was converted to it already, or belongs to Python code that promises the
type. So an expression that only names such a value is not converted to the same type again. The value of any
other expression is new, and is converted once.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import InitVar
from functools import lru_cache
from typing import Any, ClassVar, Final, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from ..types.unset import UNSET
from .annotations import resolve_annotation
from .expression import parse_code
from .natural_entries import promised_type, static_attribute
from .step_context import StepContext
from .validation import NEW, Declared, Origin

_MISSING = object()


def declared_type(expression: str, context: StepContext) -> Declared:
    """The declared type of the value of an expression.

    Args:
        expression: The expression, not yet evaluated.
        context: The state of the step.
    """
    node = _parsed(expression)
    return NEW if node is None else _type_of(node, context)


def origin_of(value: object, annotation: object, declared: Declared, context: StepContext) -> Origin:
    """The origin of the value of an expression.

    Args:
        value: The value.
        annotation: The type that it must have.
        declared: The declared type of the expression.
        context: The state of the step.
    """
    origin = declared.origin(annotation, value)
    name = context.converted_name(value, annotation) if origin == "new" else None
    if name is None:
        return origin
    return "changed" if context.changes.is_changed(name) else "converted"


def settle_copies(statements: str, context: StepContext) -> None:
    """Note which names the statements have set to values that need no conversion.

    Looked at are the assignments of the statements themselves, not those inside loops, functions or branches.

    Args:
        statements: The statements, which have been executed.
        context: The state of the step.
    """
    for name, value in _assigned(statements).items():
        context.copies.pop(name, None)
        if name not in context.step_locals:
            continue
        held = context.step_locals[name]
        declared = NEW if value is None else _type_of(value, context)
        if name not in context.binding_types:
            if declared is not NEW:
                context.copies[name] = declared, held
            continue
        origin = origin_of(held, context.binding_types[name], declared, context)
        if origin in ("converted", "changed"):
            context.settle(name, held)
            if origin == "changed":
                context.changes.mark(name, held)
        elif origin == "declared":
            context.declared[name] = held
        elif value is not None:
            context.converted.pop(name, None)  # an equal number may be the same object


@lru_cache(maxsize=256)
def _parsed(expression: str) -> ast.expr | None:
    try:
        tree = parse_code(expression.strip(), filename="<expression>", mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree.body if isinstance(tree, ast.Expression) else None


@lru_cache(maxsize=64)
def _assigned(statements: str) -> Mapping[str, ast.expr | None]:
    """The names that statements assign, each with its last value; None where that is no whole expression."""
    values: dict[str, ast.expr | None] = {}
    try:
        tree = parse_code(statements, filename="<statements>", mode="exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return values
    for statement in tree.body if isinstance(tree, ast.Module) else ():
        match statement:
            case ast.Assign(targets=targets, value=value):
                found: ast.expr | None = value
            case ast.AnnAssign(target=target, value=value) if value is not None:
                targets, found = [target], value
            case _:
                targets, found = [], None
        whole = {target.id for target in targets if isinstance(target, ast.Name)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                values[node.id] = found if node.id in whole else None
    return values


def _type_of(node: ast.expr, context: StepContext) -> Declared:
    match node:
        case ast.Name(id=name):
            return _type_of_variable(name, context)
        case ast.Attribute(value=owner, attr=name):
            found = _value_of(owner, context)
            return NEW if found is _MISSING else Declared(declared_field_type(found, name))
        case ast.Subscript(value=container):
            declared = _type_of(container, context)
            if declared.values is not None:
                return NEW
            return Declared(_item_type(declared.annotation), declared.is_converted)
        case ast.Await(value=inner) | ast.NamedExpr(value=inner):
            return _type_of(inner, context)
        case ast.IfExp(body=first, orelse=second):
            return _type_of_one((first, second), context)
        case ast.BoolOp(values=values):
            return _type_of_one(values, context)
        case ast.Call(func=function):
            found = _value_of(function, context)
            return NEW if found is _MISSING else Declared(promised_type(found), is_converted=True)
        case _:
            return NEW


def _type_of_one(nodes: Sequence[ast.expr], context: StepContext) -> Declared:
    """The declared type of one of several expressions; where not all have it, only the values of those do."""
    found = [(node, _type_of(node, context)) for node in nodes]
    declared = [(node, each) for node, each in found if each.annotation is not UNSET]
    kinds = [each.annotation for _, each in declared]
    if not kinds or any(kind != kinds[0] for kind in kinds):
        return NEW
    is_converted = all(each.is_converted for _, each in declared)
    if len(declared) == len(found) and all(each.values is None for _, each in declared):
        return Declared(kinds[0], is_converted)
    values: list[object] = []
    for node, each in declared:
        values += (_value_of(node, context),) if each.values is None else each.values
    return Declared(kinds[0], is_converted, tuple(each for each in values if each is not _MISSING))


def _type_of_variable(name: str, context: StepContext) -> Declared:
    value = context.step_locals.get(name, _MISSING)
    if value is _MISSING:
        return NEW
    if name in context.binding_types:
        is_converted = context.is_converted(name, value)
        is_valid = is_converted or context.initial_values.get(name, _MISSING) is value
        return Declared(context.binding_types[name], is_converted) if is_valid else NEW
    declared, copied = context.copies.get(name, (NEW, _MISSING))
    if copied is value:
        return cast("Declared", declared)
    if context.initial_variables.get(name, _MISSING) is not value:
        return NEW
    try:
        annotation = context.variable_annotations[name]
        return Declared(resolve_annotation(annotation, context, subject=f"'{name}'"))
    except Exception:  # an annotation is any expression
        return NEW


def _value_of(node: ast.expr, context: StepContext) -> object:
    """The value of a dotted name, as far as it is found without running code."""
    match node:
        case ast.Name(id=name):
            return context.step_locals.get(name, context.visible_globals.get(name, _MISSING))
        case ast.Attribute(value=owner, attr=name):
            found = _value_of(owner, context)
            return _MISSING if found is _MISSING else static_attribute(found, name, _MISSING)
        case _:
            return _MISSING


def declared_field_type(owner: object, field: str) -> object:
    """The type that the class of an object declares for a field; `object` if it declares none.

    Args:
        owner: The object.
        field: The name of the field.
    """
    if isinstance(owner, BaseModel):
        info = type(owner).model_fields.get(field)
        return object if info is None else info.rebuild_annotation()
    try:
        declared = get_type_hints(type(owner), include_extras=True).get(field, object)
    except Exception:  # an annotation is any expression; one that raises gives no type
        return object
    if get_origin(declared) in (ClassVar, Final):
        return next(iter(get_args(declared)))
    return object if declared in (ClassVar, Final) or isinstance(declared, InitVar) else declared


def _item_type(container: object) -> object:
    arguments = get_args(container)
    kind: Any = get_origin(container)
    if not isinstance(kind, type):
        return UNSET
    if issubclass(kind, Mapping):
        return arguments[1] if len(arguments) == 2 else UNSET
    if issubclass(kind, tuple):
        return arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else UNSET
    return arguments[0] if len(arguments) == 1 and issubclass(kind, Sequence) else UNSET
