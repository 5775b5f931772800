"""`@nh.tool` (specification 8.3)."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from ..signatures import keep_names
from .environment import current_tool_scope
from .tool_function import make_tool_function

Function = TypeVar("Function", bound=Callable[..., object])


@overload
def tool(function: Function, /) -> Function: ...


@overload
def tool(
    *,
    name: str | None = None,
    overwrite: bool = False,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    overwrite: bool = False,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Function | Callable[[Function], Function]:
    """Register a callable as a tool, offered to models through their tool-calling interface.

    The tool is registered in the innermost scope: the call of a natural function, the scope, the run, else
    the program; it disappears with that. A first parameter annotated `RunContext[StepContext]` (or without
    annotation and named `run_context`) receives the context and is not shown to the model. The callable
    itself is returned.

    Args:
        function: The callable, when the decorator is used without parentheses.
        name: The tool's name; None for the function's name.
        overwrite: Whether to replace a visible tool of the same name.
        description: The text that the model reads; None for the function's docstring.
        metadata: Data to attach to the tool's definition.

    Raises:
        ToolRegistrationError: The name or the signature cannot be offered, or the name is taken.
    """

    def register(target: Function) -> Function:
        keep_names(target, inspect.currentframe())
        made = make_tool_function(target, name=name, description=description, metadata=metadata)
        current_tool_scope().register(made, overwrite=overwrite)
        return target

    return register if function is None else register(function)
