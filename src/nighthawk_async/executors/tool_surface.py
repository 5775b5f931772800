"""Checks of the tools of a step before the first request, so that no provider has to refuse them.

Errors name the tool and a remedy; nothing was sent. Only certain refusals of a provider are errors. A tool is
checked once, not once for each step.

Source: the error messages of the endpoints; function names have at most 64 characters (OpenAI, Google).
"""

import re
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec

from ..catalog.models import find_schema_rules
from ..errors import ConfigurationError, ToolRegistrationError
from ..ports import Model
from ..runtime.tool_function import PROVIDED_TOOL_NAMES, ToolFunction
from ..types.messages import ToolDefinition
from ..wire.schema_rules import load_schema_rules

_MAX_NAME_CHARACTERS = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PROVIDED_TOOL = re.compile(rf"(?<![\w.])(?:{'|'.join(PROVIDED_TOOL_NAMES)})(?!\w)")
_CALLED_TOOL = re.compile(r"(?<![\w.])nh_\w+(?=\()|(?<=\btool )nh_\w+|(?<![\w.])nh_\w+(?= tool\b)")

_checked: WeakKeyDictionary[ToolFunction, set[str]] = WeakKeyDictionary()


def check_tools(functions: Sequence[ToolFunction], model: Model | None) -> None:
    """Check that no provider would refuse the user's tools.

    Args:
        functions: The tools.
        model: The model that is asked; None when that is not known.

    Raises:
        ToolRegistrationError: A name is no name for a provider or is taken, or a schema is refused.
    """
    if not functions:
        return
    names: set[str] = set(PROVIDED_TOOL_NAMES)
    rules = "" if model is None else find_schema_rules(model.name).module
    for function in functions:
        if function.name in names:
            raise ToolRegistrationError(
                f"Two tools are named {function.name!r}; register one of them under another name."
            )
        names.add(function.name)
        if rules not in (passed := _checked.get(function, set[str]())):
            _check(function.definition, rules)
            _checked[function] = {*passed, rules}


def check_mentioned_tools(
    program: str, *, step_id: str, offered: Sequence[str], known: Mapping[str, object]
) -> None:
    """Check that a program names no tool that the step does not offer.

    Args:
        program: The program text as its author wrote it.
        step_id: The step.
        offered: The names of the tools on offer, the outcome tool included.
        known: The Python names that the block can use.

    Raises:
        ConfigurationError: It names a provided tool, or writes a call of a tool, that is not on offer.
    """
    if "nh_" not in program:
        return
    mentioned = dict.fromkeys((*_PROVIDED_TOOL.findall(program), *_CALLED_TOOL.findall(program)))
    for name in mentioned:
        if name in offered or name in known:
            continue
        remedy = "leave it out of the text"
        if name in PROVIDED_TOOL_NAMES and name != "nh_outcome":
            remedy = f"add it to provided_tools of the StepExecutorConfiguration, or {remedy}"
        tools = ", ".join(offered) or "none"
        raise ConfigurationError(
            f"step {step_id}: the program names the tool {name!r}, which this step does not offer; {remedy}. "
            f"Tools on offer: {tools}."
        )


def _check(definition: ToolDefinition, rules_module: str) -> None:
    name = definition.name
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARACTERS:
        raise ToolRegistrationError(
            f"Tool {name!r}: providers take names of at most {_MAX_NAME_CHARACTERS} ASCII letters, digits "
            "and underscores; register it with @nh.tool(name=…)."
        )
    try:
        msgspec.json.encode(definition.parameters)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolRegistrationError(
            f"Tool {name!r}: its JSON Schema holds what JSON cannot: {error}; change the annotation or the "
            "default that brings it."
        ) from error
    rules = load_schema_rules(rules_module)
    problem = None if rules is None else rules.find_parameter_problem(definition.parameters)
    if problem is not None:
        raise ToolRegistrationError(f"Tool {name!r}: {problem}")
