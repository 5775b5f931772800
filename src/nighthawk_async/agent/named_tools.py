"""The functions that a block names, as tools: for steps in which no code is evaluated."""

from collections.abc import Callable, Iterator, Mapping

from ..errors import ConfigurationError, ToolRegistrationError
from ..kernel.context import StepContext
from ..kernel.tools import Tool, make_tool_function

_MISSING = object()


def has_functions(context: StepContext) -> bool:
    """Whether the block of a step names a function."""
    return any(True for _ in _functions_of(context))


def tools_of(
    context: StepContext, others: Mapping[str, Tool], *, is_in_text: bool = False
) -> dict[str, Tool]:
    """Return the functions that the block of a step names, as tools.

    A dotted name has underscores instead. A function that is a tool already is not offered twice.

    Args:
        context: The state of the step.
        others: The other tools of the step, by name.
        is_in_text: Whether the model calls them as text, rather than at the level `none`; for errors.

    Raises:
        ConfigurationError: A function cannot be a tool, or its name is that of another tool.
    """
    found: dict[str, Tool] = {}
    for path, function in _functions_of(context):
        name = path.replace(".", "_")
        try:
            tool = make_tool_function(function, name=name)
            tool.json_schema()
        except ToolRegistrationError as error:
            raise _refused(context, path, str(error), is_in_text) from error
        if any(tool.is_same(each) for each in others.values()):
            continue
        if name in others:
            raise _refused(context, path, f"there is another tool named {name!r}", is_in_text)
        found[name] = tool
    return found


def _refused(context: StepContext, path: str, reason: str, is_in_text: bool) -> ConfigurationError:
    where = "for a model that calls no tools" if is_in_text else "with code='none'"
    instead = "leave it out of the block" if is_in_text else "use code='shown'"
    return ConfigurationError(
        f"step {context.step_id}: {where} the function <{path}> has to be a tool, which it cannot "
        f"be: {reason.rstrip('.')}; change it, or {instead}"
    )


def _functions_of(context: StepContext) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the functions and methods that the block names, once each, by their paths."""
    seen: list[object] = []
    for path in context.references:
        value = _value_of(path, context)
        if callable(value) and not isinstance(value, type) and not any(value == each for each in seen):
            seen.append(value)
            yield path, value


def _value_of(path: str, context: StepContext) -> object:
    root, *fields = path.split(".")
    value = context.step_locals.get(root, context.referenced_globals.get(root, _MISSING))
    for name in fields:
        if value is _MISSING:
            break
        try:
            value = getattr(value, name)
        except Exception:  # a property of the user's object may raise anything
            return _MISSING
    return value
