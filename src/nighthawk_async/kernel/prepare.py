"""Preparation of a step from a block and its Python variables (specification 7, 8.1)."""

import builtins
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, Never, NoReturn, Optional, cast

from msgspec import Struct, field

from ..errors import AnnotationError, ExecutionError, NaturalParseError
from ..executions import Execution
from ..natural.blocks import NaturalBlock
from ..natural.program import NaturalProgram, parse_program, permitted_kinds
from ..types.execution import ExecutionRef
from ..types.outcomes import OutcomeKind
from ..types.unset import unset
from ..values.error_text import describe_error
from ..values.snapshots import NEVER_CHANGED, attribute_of
from ..values.validation import can_validate, check_type, type_name
from .actor import StepActor
from .context import StepContext
from .declared_types import ReturnCheck, resolve_annotation, return_type
from .environment import Environment
from .policy import Policy
from .step import BlockPart, Step


class NaturalSite(Struct, frozen=True, kw_only=True, eq=False):
    """The site of a block at run time.

    Args:
        module_globals: The live globals of the function's module.
        annotations: Returns the function's annotations; called at a step, since they may use later names.
        names: Returns the names that its annotations may use beside globals.
        is_generator: Whether the function is a generator or async generator.
        captured: Values of enclosing variables that only block texts mention, seen at decoration.
        policies: The function's own policies, for its steps but not for nested ones.
        return_check: Checks the values that the function returns; None if it may return anything.
    """

    module_globals: dict[str, object]
    annotations: Callable[[], Mapping[str, object]]
    names: Callable[[], Mapping[str, object]] = dict[str, object]
    is_generator: bool = False
    captured: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    policies: tuple[Policy, ...] = ()
    return_check: ReturnCheck | None = None


class CalledBlock(NamedTuple):
    """A block that is to be executed, with what its place in the program gives it.

    Args:
        block: The block.
        site: Its site at run time.
        python_locals: The `locals()` at the block.
        literal: The rendered literal of an f-string block; None for a plain literal.
        caller: The execution in which it is called; None for none.
        depth: The number of steps that it is nested in.
    """

    block: NaturalBlock
    site: NaturalSite
    python_locals: Mapping[str, object]
    literal: str | None
    caller: Execution | None
    depth: int


def make_step(outer: Environment, execution_ref: ExecutionRef, called: CalledBlock) -> Step:
    """Make a step, and let the active policies prepare it, innermost first.

    Args:
        outer: The environment in which the block is called.
        execution_ref: The identity of the step.
        called: The block.

    Raises:
        Exception: An error of `prepare_step`, or of a policy that refuses the step.
    """
    block, site, caller = called.block, called.site, called.caller
    program = block.program or _parse_rendered(block, cast("str", called.literal))
    context = prepare_step(
        block=block,
        program=program,
        site=site,
        python_locals=called.python_locals,
        parent=None if outer.step is None else outer.step.context,
        implicit_references=_implicit_references(outer, block, site),
        execution_ref=execution_ref,
    )
    step = Step(
        block=block,
        actor=StepActor(
            context,
            parent=None if outer.step is None else outer.step.actor,
            keeps_places=outer.journal is not None,
        ),
        program=program.text,
        is_interpolated=block.program is None,
        execution=Execution(
            cast("str", execution_ref.execution_id), None if caller is None else caller.in_progress
        ),
        policies=outer.policies,
    )
    step.actor.coding = outer.policies.coding
    for name, part in _named_parts(block, context):
        part.__join_step__(step, name)
    for policy in site.policies:
        policy.prepare(step)
    for policy in reversed(step.policies.overriding["prepare"]):
        policy.prepare(step)
    return step


def _named_parts(block: NaturalBlock, context: StepContext) -> list[tuple[str, BlockPart]]:
    """The parts that a block names.

    Only names that the author of the block wrote count; those in a value that was put into its text do not.
    """
    found: list[tuple[str, BlockPart]] = []
    for name in block.read_names:
        value = context.step_locals.get(name, context.referenced_globals.get(name))
        if issubclass(type(value), BlockPart):  # isinstance would ask the value for its __class__
            found.append((name, cast("BlockPart", value)))
    return found


def _implicit_references(outer: Environment, block: NaturalBlock, site: NaturalSite) -> Mapping[str, object]:
    """The references of the scope, and what its policies have for names in the block."""
    naming = outer.policies.naming
    if not naming:
        return outer.implicit_references
    references = dict(outer.implicit_references)
    for policy in naming:
        variables = (references, site.module_globals, vars(builtins))
        references.update(policy.named(block.read_names, variables))
    return references


def _parse_rendered(block: NaturalBlock, literal: str) -> NaturalProgram:
    """The program of an f-string block. It holds values, so an error about it gets a text without content."""
    try:
        return parse_program(literal, filename=block.filename, line=block.line)
    except NaturalParseError as error:
        error.without_content(f"{block.filename}:{block.line}: the rendered block is no natural program")
        raise


def prepare_step(
    *,
    block: NaturalBlock,
    program: NaturalProgram,
    site: NaturalSite,
    python_locals: Mapping[str, object],
    parent: StepContext | None,
    implicit_references: Mapping[str, object],
    execution_ref: ExecutionRef,
) -> StepContext:
    """Make the state of a step.

    Args:
        block: The block.
        program: Its program.
        site: Its site at run time.
        python_locals: The `locals()` at the block.
        parent: The state of the step that called the function; None for none.
        implicit_references: Names that the scope makes available.
        execution_ref: The identity of the step.

    Raises:
        NameError: A read binding has no value.
        UnboundLocalError: A read binding is a local variable without a value.
        AnnotationError: An annotation cannot be resolved, or no value can be validated against it.
        NaturalParseError: The frontmatter denies every outcome that is possible, or every outcome that the
            annotation of the return value allows.
    """
    python_locals = _set_locals(python_locals)
    step_globals = _step_globals(site, implicit_references)
    inherited = {} if parent is None else parent.step_locals
    step_locals = _step_locals(block, program, step_globals, site, python_locals, inherited)
    for name in block.read_names:
        _check_read(name, block, step_locals, step_globals)
    allowed_kinds = block.allowed_kinds
    if program.denied_kinds:
        allowed_kinds = permitted_kinds(allowed_kinds, program, filename=block.filename, line=block.line)
    returned = object if site.return_check is None else site.return_check.annotation
    refused_kinds = _refused_kinds(block, site, returned)
    context = StepContext(
        step_id=block.step_id,
        execution_ref=execution_ref,
        step_globals=step_globals,
        step_locals=step_locals,
        inherited_names=_inherited_names(program, python_locals, inherited),
        is_async=block.is_async,
        is_generator=site.is_generator,
        read_names=block.read_names,
        write_names=block.write_names,
        references=program.references,
        mentions=program.mentions,
        allowed_kinds=_without(refused_kinds, allowed_kinds, block),
        refused_kinds=refused_kinds,
    )
    annotations = _annotations(site, context)
    context.enclosing_names = {
        **site.names(),
        **site.captured,
        **{name: python_locals[name] for name in block.free_names if name in python_locals},
    }
    context.parameter_annotations = {name: annotations[name] for name in annotations if name != "return"}
    context.return_annotation = annotations.get("return", object)
    context.initial_values = _initial_values(block, context, python_locals)
    context.binding_types = _binding_types(block, program, site, annotations, context)
    declared = {**context.parameter_annotations, **block.annotations}
    context.variable_annotations = {name: each for name, each in declared.items() if name in python_locals}
    context.initial_variables = {name: python_locals[name] for name in context.variable_annotations}
    if returned is object and "return" in context.allowed_kinds:  # others were validated already
        check_type(return_type(context), subject=f"step {context.step_id}: the return value")
    context.changes.objects = _objects_to_keep_valid(context)
    context.declared = _initial_objects(context)
    context.raise_error_types = {
        **_raise_error_types(program, site, context),
        **_handled_types(block, python_locals, step_globals),
    }
    context.referenced_globals = _referenced_globals(program, context, implicit_references)
    return context


def _refused_kinds(block: NaturalBlock, site: NaturalSite, returned: object) -> dict[OutcomeKind, str]:
    """The outcomes that would make the function return what its annotation excludes, with the reasons."""
    check = site.return_check
    refused: dict[OutcomeKind, str] = {}
    if check is None:
        return refused
    if block.ends_function and not check.accepts_none:
        name = type_name(returned)
        refused["pass"] = f"nothing comes after the block, and the function must return {name}"
    if returned is NoReturn or returned is Never:
        refused["return"] = f"the function must not return: its annotation is {type_name(returned)}"
    return refused


def _without(
    refused: Mapping[OutcomeKind, str], allowed: tuple[OutcomeKind, ...], block: NaturalBlock
) -> tuple[OutcomeKind, ...]:
    """The kinds that are left; raises `NaturalParseError` if none is."""
    left: tuple[OutcomeKind, ...] = tuple(kind for kind in allowed if kind not in refused)
    if not left:
        reasons = "; ".join(f"{kind}: {refused[kind]}" for kind in allowed)
        message = f"the frontmatter leaves no outcome that the function's annotation allows: {reasons}"
        raise NaturalParseError(message, filename=block.filename, line=block.line)
    return left


def _set_locals(python_locals: Mapping[str, object]) -> Mapping[str, object]:
    """The variables, except those that are `nighthawk_async.unset`, which have no value yet."""
    if not any(value is unset for value in python_locals.values()):
        return python_locals
    return {name: value for name, value in python_locals.items() if value is not unset}


def _step_globals(site: NaturalSite, implicit_references: Mapping[str, object]) -> dict[str, object]:
    """The live globals of the module; a copy if implicit references are added."""
    site.module_globals.setdefault("__builtins__", builtins)  # as `eval` does
    return {**site.module_globals, **implicit_references} if implicit_references else site.module_globals


def _step_locals(
    block: NaturalBlock,
    program: NaturalProgram,
    step_globals: Mapping[str, object],
    site: NaturalSite,
    python_locals: Mapping[str, object],
    inherited: Mapping[str, object],
) -> dict[str, object]:
    """The names of the calling step, overridden by the values of the block's own names at its site."""
    step_locals = {name: value for name, value in inherited.items() if name != "__builtins__"}
    own = block.local_names | block.free_names
    for name in (*block.write_names, *program.roots):
        if name in own or name in block.write_names or name in step_globals or hasattr(builtins, name):
            step_locals.pop(name, None)  # an inherited name must not hide the variable that the block means
        if name in site.captured and name not in block.write_names:
            step_locals[name] = site.captured[name]
    step_locals.update(
        (name, value) for name, value in python_locals.items() if not name.startswith("__nighthawk")
    )
    return step_locals


def _inherited_names(
    program: NaturalProgram, python_locals: Mapping[str, object], inherited: Mapping[str, object]
) -> frozenset[str]:
    """The names that come from the calling step alone, and that the program does not reference."""
    return frozenset(inherited.keys() - python_locals.keys() - set(program.roots)) if inherited else _NONE


_NONE: frozenset[str] = frozenset()


def _check_read(
    name: str, block: NaturalBlock, step_locals: Mapping[str, object], step_globals: Mapping[str, object]
) -> None:
    """Check that a read binding has a value: in locals, enclosing, globals or builtins; raise like Python."""
    error: NameError | None = None
    if name in step_locals or name in block.write_names:  # the block may set it before it reads it
        return
    if name in block.local_names:
        error = UnboundLocalError(
            f"cannot access local variable '{name}' where it is not associated with a value"
        )
    elif name in block.free_names:
        error = NameError(
            f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        )
    elif name not in step_globals and not hasattr(builtins, name):
        error = NameError(f"name '{name}' is not defined", name=name)
    if error is not None:
        error.add_note(f"<{name}> is read by the natural block at {block.filename}:{block.line}")
        raise error


def _annotations(site: NaturalSite, context: StepContext) -> Mapping[str, object]:
    try:
        return site.annotations()
    except Exception as error:  # Python 3.14 evaluates annotations, which are any expressions, only now
        raise AnnotationError(
            f"step {context.step_id}: the function's annotations cannot be resolved: "
            f"{describe_error(error)}; names used in them must exist at run time"
        ) from error


def _initial_values(
    block: NaturalBlock, context: StepContext, python_locals: Mapping[str, object]
) -> dict[str, object]:
    """Return the Python values of the write bindings before the step."""
    values: dict[str, object] = {}
    for name in block.write_names:
        if name in python_locals:
            values[name] = python_locals[name]
        elif name not in block.local_names and name in context.step_globals:
            values[name] = context.step_globals[name]
    return values


def _binding_types(
    block: NaturalBlock,
    program: NaturalProgram,
    site: NaturalSite,
    parameters: Mapping[str, object],
    context: StepContext,
) -> dict[str, object]:
    """The type of each write binding: as annotated or returned, of its value, in the text, else `object`."""
    types: dict[str, object] = {}
    for name in block.write_names:
        annotation = block.annotations.get(name, parameters.get(name, object) if name != "return" else object)
        resolved = resolve_annotation(annotation, context, subject=f"write binding '{name}'")
        if resolved is object:
            returned = _returned_type(context) if name in block.returned_names else object
            types[name] = _inferred_type(name, context) if returned is object else returned
            if types[name] is object and annotation is object and name in block.named_types:
                types[name] = _named_type(name, block.named_types[name], program, site, context)
        else:
            check_type(resolved, subject=f"step {context.step_id}: write binding '{name}'")
            types[name] = resolved
    return types


def _returned_type(context: StepContext) -> object:
    """The type of what the function returns; `object` if it has none that values can be validated against."""
    try:
        returned = return_type(context)
    except ExecutionError:
        return object  # reported later, if the block returns a value
    is_known = returned is not None and returned is not Any and can_validate(returned)
    return returned if is_known else object


def _inferred_type(name: str, context: StepContext) -> object:
    value = context.initial_values.get(name)
    return object if value is None or not can_validate(type(value)) else type(value)


def _named_type(
    name: str, written: str, program: NaturalProgram, site: NaturalSite, context: StepContext
) -> object:
    """The class that the text gives as a write binding's type, or None where that may be meant as well."""
    named = site.captured.get(written, _lookup(written, context))
    if not issubclass(type(named), type) or context.initial_values.get(name) is not None:
        return object  # not isinstance, which reads `__class__` of the value
    kind = cast("type[object]", named)
    if kind in (object, type) or issubclass(kind, BaseException) or not can_validate(kind):
        return object
    may_be_none = name in context.initial_values or "None" in program.words
    return Optional[kind] if may_be_none else kind  # noqa: UP045 - of a class that may define `|`


def _objects_to_keep_valid(context: StepContext) -> dict[str, object]:
    """Return the objects of typed write bindings at the beginning of the step."""
    return {
        name: context.step_locals[name]
        for name, annotation in context.binding_types.items()
        if annotation is not object and name in context.step_locals
    }


def _initial_objects(context: StepContext) -> dict[str, object]:
    """The initial values that no code can make again: an equal number may be another value."""
    values = context.initial_values.items()
    return {name: value for name, value in values if type(value) not in NEVER_CHANGED}


def _raise_error_types(
    program: NaturalProgram, site: NaturalSite, context: StepContext
) -> dict[str, type[Exception]]:
    """The exception types that the program names, with or without angle brackets."""
    types: dict[str, type[Exception]] = {}
    for name in program.possible_types:
        value = site.captured.get(name, _lookup(name, context))
        if not issubclass(type(value), type):  # not isinstance, which reads `__class__` of the value
            continue
        if issubclass(error_type := cast("type", value), Exception):
            types[name] = error_type
    return types


_PACKAGE = __name__.partition(".")[0]


def _handled_types(
    block: NaturalBlock, python_locals: Mapping[str, object], step_globals: Mapping[str, object]
) -> dict[str, type[Exception]]:
    """The exception types of the `except` clauses around the block, except those that the library raises.

    A variable may hold several types, which then have their own names.
    """
    types: dict[str, type[Exception]] = {}
    for path in block.handled_errors:
        value = _value_at(path, python_locals, step_globals)
        has_several = type(value) is tuple
        members: list[Any] = [*value] if type(value) is tuple else [value]
        for member in members:
            if not issubclass(type(member), type) or not issubclass(member, Exception):
                continue
            error_type: type[Exception] = member
            if error_type.__module__.partition(".")[0] != _PACKAGE:
                types.setdefault(error_type.__name__ if has_several else path, error_type)
    return types


def _value_at(path: str, *scopes: Mapping[str, object]) -> object:
    """The value of a name or dotted path, without running code of objects; None for none."""
    name, *attributes = path.split(".")
    value = next((each[name] for each in scopes if name in each), getattr(builtins, name, None))
    for attribute in attributes:
        is_plain = issubclass(type(value), ModuleType) or issubclass(type(value), type)
        try:
            value = getattr(value, attribute, None) if is_plain else attribute_of(value, attribute)
        except Exception:  # a module that loads lazily may fail
            return None
    return value


def _lookup(name: str, context: StepContext) -> object:
    if name in context.step_locals:
        return context.step_locals[name]
    return context.step_globals.get(name, getattr(builtins, name, None))


def _referenced_globals(
    program: NaturalProgram, context: StepContext, implicit_references: Mapping[str, object]
) -> dict[str, object]:
    """Names of the program, and implicit ones, that exist only in the step globals."""
    return {
        name: context.step_globals[name]
        for name in dict.fromkeys((*program.roots, *implicit_references))
        if name not in context.step_locals and name in context.step_globals
    }
