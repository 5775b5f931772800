"""Selection of the step's locals for a prompt (specification 8.2.2)."""

from collections.abc import Mapping

__all__ = ["select_locals"]


def select_locals(step_locals: Mapping[str, object]) -> dict[str, object]:
    """Select the entries of the LOCALS section, in their order: all names but dunder names.

    Args:
        step_locals: The step's locals.
    """
    return {
        name: step_locals[name]
        for name in sorted(step_locals)
        if name.isidentifier() and not name.startswith("__")
    }
