"""Assignments of `nh_assign` to a step's state (specification 8.3)."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from inspect import getattr_static
from keyword import iskeyword

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from ..errors import ToolBoundaryError, ToolValidationError
from .declared_types import declared_field_type, origin_of
from .error_text import describe_error, describe_validation_error
from .plain_data import validate_data
from .snapshot import Snapshot
from .step_context import StepContext
from .validation import NEW, Declared, can_validate, validate_value

_TARGET_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_ANOTHER_WAY = "Assign another value, or change the object by its methods."


class AssignmentTarget(Struct, frozen=True, kw_only=True):
    """A parsed target path.

    Args:
        root: The name in the step locals.
        fields: The attributes below it; empty for a bare name.
    """

    root: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.root, *self.fields))


def parse_target_path(text: str) -> AssignmentTarget:
    """Parse `name ("." field)*`.

    Raises:
        ToolBoundaryError: The path does not follow the grammar, or a segment starts with `__`.
    """
    if not _TARGET_PATH.fullmatch(text) or any(iskeyword(segment) for segment in text.split(".")):
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"target_path {text!r} is not of the form name or name.field",
            guidance="Use ASCII identifiers separated by dots, without angle brackets or subscripts.",
        )
    root, *fields = text.split(".")
    for segment in (root, *fields):
        if segment.startswith("__"):
            raise ToolBoundaryError(
                kind="invalid_input",
                message=f"target_path {text!r} has the reserved segment {segment!r}",
                guidance="Segments that start with two underscores cannot be assigned.",
            )
    return AssignmentTarget(root=root, fields=tuple(fields))


def assign(
    context: StepContext,
    target: AssignmentTarget,
    value: object,
    *,
    is_data: bool = False,
    declared: Declared = NEW,
) -> object:
    """Assign a value, or change nothing.

    Args:
        context: The state of the step.
        target: The target.
        value: The value, not yet validated.
        is_data: Whether the value is decoded JSON, and not a Python object.
        declared: The declared type of the value.

    Returns:
        The value as it was stored.

    Raises:
        ToolValidationError: The value does not match the type of the binding or field.
        ToolBoundaryError: The path does not lead to an object, or the object refused the attribute.
    """

    def validate(annotation: object, subject: str) -> object:
        if is_data:
            return validate_data(value, annotation, subject=subject)
        origin = origin_of(value, annotation, declared, context)
        return validate_value(value, annotation, subject=subject, origin=origin)

    if target.fields:
        return _assign_field(context, target, validate)
    annotation = context.binding_types.get(target.root, object)
    stored = validate(annotation, f"write binding '{target.root}'")
    if target.root in context.write_names:
        context.settle(target.root, stored)
        context.assigned_names.add(target.root)
    else:
        context.step_locals[target.root] = stored
        if target.root not in context.helper_names:
            context.lost_names.add(target.root)
    return stored


def _assign_field(
    context: StepContext, target: AssignmentTarget, validate: Callable[[object, str], object]
) -> object:
    owner = _resolve_owner(context, target)
    field = target.fields[-1]
    stored = validate(_field_type(owner, field), f"field '{target}'")
    root = context.step_locals[target.root]
    context.changes.remember((target.root,))  # the owner may be part of any of the objects
    with _unchanged_on_failure(root, owner, target):
        setattr(owner, field, stored)
    context.changes.mark(target.root, root)
    if target.root in context.write_names:
        context.assigned_names.add(target.root)
    return stored


@contextmanager
def _unchanged_on_failure(
    root: object, owner: object, target: AssignmentTarget
) -> Generator[None, None, None]:
    """Restore the state if a setter or validator refuses a value half way.

    Restored are the owner, the object that stores the attribute for it, and everything reachable from it and
    from the root of the path. Changes that a setter makes elsewhere, in a global variable for example, stay.
    """
    descriptor = getattr_static(type(owner), target.fields[-1], None)
    before = Snapshot(owner, descriptor, root)
    try:
        yield
    except BaseException as error:  # a user's property, `__setattr__` or validator may raise anything
        before.restore()
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, ValidationError):
            what = f"field '{target}'"
            message = f"{what}: {describe_validation_error(error)}"
            raise ToolValidationError(message).without_content(f"{what} does not take the value") from error
        what = f"cannot assign '{target}'"
        message = f"{what}: {describe_error(error)}"
        refused = ToolBoundaryError(kind="execution", message=message, guidance=_ANOTHER_WAY)
        raise refused.without_content(what) from error


def _resolve_owner(context: StepContext, target: AssignmentTarget) -> object:
    if target.root not in context.step_locals:
        raise ToolBoundaryError(
            kind="resolution",
            message=f"'{target.root}' is not a local name of this step",
            guidance="Assign to a field of a name shown under LOCALS.",
        )
    owner = context.step_locals[target.root]
    for field in target.fields[:-1]:
        try:
            owner = getattr(owner, field)
        except Exception as error:  # a property of the user's object may raise anything
            raise ToolBoundaryError(
                kind="resolution",
                message=f"cannot reach '{target}' at '.{field}': {describe_error(error)}",
                guidance="Assign to a field that its object has.",
            ) from error
    return owner


def _field_type(owner: object, field: str) -> object:
    """The declared type of a field.

    It is `object` if the owner's class declares none that values can be validated against, or if it validates
    assignments itself.
    """
    if isinstance(owner, BaseModel) and owner.model_config.get("validate_assignment"):
        return object
    declared = declared_field_type(owner, field)
    return declared if can_validate(declared) else object
