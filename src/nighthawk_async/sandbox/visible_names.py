"""The names of the program that code in a sandbox can use: those that the prompt shows."""

from ..kernel.context import StepContext
from ..types.unset import UNSET


def visible_value(name: str, context: StepContext) -> object:
    """The value of a name; UNSET for one that the prompt does not show."""
    if name in context.step_locals and name not in context.inherited_names:
        return context.step_locals[name]
    return context.referenced_globals.get(name, UNSET)
