"""Looking at the tools of a step before the first request, so that no provider has to refuse them.

What is wrong is told with the name of the tool and a remedy; nothing was sent. Only what a provider refuses
for certain is an error. A tool is looked at once, not once for each step.

Sources: the error messages of the endpoints. Function names have at most 64 characters (OpenAI, Google);
`array schema missing items` (OpenAI); property keys match `^[a-zA-Z0-9_.-]{1,64}$` (Anthropic).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast
from weakref import WeakKeyDictionary

import msgspec

from ..catalog.models_openai import OPENAI_MODELS
from ..errors import ConfigurationError, ToolRegistrationError
from ..ports import Model
from ..runtime.tool_function import PROVIDED_TOOL_NAMES, ToolFunction
from ..types.messages import ToolDefinition

ProviderRules: TypeAlias = Literal["", "anthropic", "openai"]
"""Whose endpoint's rules apply; empty where none are known."""

_MAX_NAME_CHARACTERS = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ANTHROPIC_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}", re.ASCII)
_PROVIDED_TOOL = re.compile(rf"(?<![\w.])(?:{'|'.join(PROVIDED_TOOL_NAMES)})(?!\w)")
_CALLED_TOOL = re.compile(r"(?<![\w.])nh_\w+(?=\()|(?<=\btool )nh_\w+|(?<![\w.])nh_\w+(?= tool\b)")

_checked: WeakKeyDictionary[ToolFunction, set[ProviderRules]] = WeakKeyDictionary()


def check_tools(functions: Sequence[ToolFunction], model: Model | None) -> None:
    """Find out whether a provider would refuse the user's tools.

    Args:
        functions: The tools.
        model: The model that is asked; None when that is not known.

    Raises:
        ToolRegistrationError: A name is no name for a provider or is taken, or a schema is refused.
    """
    if not functions:
        return
    names: set[str] = set(PROVIDED_TOOL_NAMES)
    rules = "" if model is None else provider_rules(model.name)
    for function in functions:
        if function.name in names:
            raise ToolRegistrationError(
                f"Two tools are named {function.name!r}; register one of them under another name."
            )
        names.add(function.name)
        if rules not in (passed := _checked.get(function, set[ProviderRules]())):
            _check(function.definition, rules)
            _checked[function] = {*passed, rules}


def check_mentioned_tools(
    program: str, *, step_id: str, offered: Sequence[str], known: Mapping[str, object]
) -> None:
    """Find out whether a program tells the model to use a tool that the step does not offer.

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


@lru_cache(maxsize=256)
def provider_rules(model_name: str) -> ProviderRules:
    """Return the provider whose rules a model's requests must follow.

    Args:
        model_name: The model, `provider:name`.
    """
    if model_name.startswith("anthropic:"):
        return "anthropic"
    # Other servers of these protocols, which most other names mean, take more.
    is_openai = any(fnmatchcase(model_name, facts.pattern) for facts in OPENAI_MODELS)
    return "openai" if is_openai else ""


def _check(definition: ToolDefinition, rules: ProviderRules) -> None:
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
    if rules == "anthropic":
        _check_property_names(definition)
    if rules == "openai":
        _check_arrays(definition)


def _check_property_names(definition: ToolDefinition) -> None:
    properties = cast("Mapping[str, object]", definition.parameters.get("properties", {}))
    for name in properties:
        if not _ANTHROPIC_PROPERTY.fullmatch(name):
            raise ToolRegistrationError(
                f"Tool {definition.name!r}: Anthropic's endpoint refuses the parameter name {name!r}; it "
                "takes at most 64 ASCII letters, digits, underscores, dots and hyphens. Rename the parameter."
            )


def _check_arrays(definition: ToolDefinition) -> None:
    for path, schema in _schemas_in(definition.parameters, ()):
        if schema.get("type") == "array" and "items" not in schema:
            place = ".".join(part for part in path if part not in ("properties", "$defs"))
            raise ToolRegistrationError(
                f"Tool {definition.name!r}: OpenAI's endpoint refuses the type of {place}, a list whose "
                "items have no common type, such as a tuple; annotate it as list[…], or as an object with "
                "named fields."
            )


def _schemas_in(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every object in a schema that may be a schema itself, with the way to it."""
    if isinstance(value, Mapping):
        schema = cast("Mapping[str, Any]", value)
        yield path, schema
        for name, inner in schema.items():
            if name not in ("default", "examples", "enum", "const") or path[-1:] == ("properties",):
                yield from _schemas_in(inner, (*path, name))
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _schemas_in(each, path)
