"""Which names stand in the sections of a prompt (specification 8.2.2 and 8.2.3). Floor 1."""

from collections.abc import Collection, Mapping

__all__ = ["select_globals", "select_locals"]


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


def select_globals(
    *, step_globals: Mapping[str, object], step_locals: Mapping[str, object], references: Collection[str]
) -> dict[str, object]:
    """Select the entries of the GLOBALS section, in their order: names referred to that are not local.

    Args:
        step_globals: The step's globals.
        step_locals: The step's locals; a name in them is not global.
        references: The names and dotted paths that the program refers to; the first segment of a path counts.
    """
    names = sorted({reference.partition(".")[0] for reference in references})
    return {name: step_globals[name] for name in names if name not in step_locals and name in step_globals}
