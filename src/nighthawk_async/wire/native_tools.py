"""The setting `native_tools`: its check, and refusals of what a protocol lacks.

The codecs encode the tools beside those of the library. A tool or an option that a protocol does not have is
refused, never left out.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..errors import ConfigurationError
from ..types.json import is_json_list, is_json_mapping, is_list_or_tuple
from ..types.native_tools import CodeExecution, FileSearch, NativeTool, UserLocation, WebSearch

_EXAMPLE = "nighthawk_async.models.WebSearch(max_uses=3)"

NATIVE_TOOL_NAMES = ("web_search", "code_execution", "file_search")
"""The names of all tools."""


def native_tools_of(settings: Mapping[str, Any]) -> tuple[NativeTool, ...]:
    """The tools that settings ask for.

    Args:
        settings: Settings of a model.

    Raises:
        ConfigurationError: The setting is no list of such tools, or holds one of them twice.
    """
    given: object = settings.get("native_tools")
    if given is None:
        return ()
    if not is_list_or_tuple(given):
        raise ConfigurationError(
            f"Model setting 'native_tools' is a list, such as [{_EXAMPLE}], not {_kind_of(given)}."
        )
    tools: list[NativeTool] = []
    for each in given:
        if not isinstance(each, WebSearch | CodeExecution | FileSearch):
            raise ConfigurationError(
                "Model setting 'native_tools' holds WebSearch, CodeExecution and FileSearch objects, such as "
                f"{_EXAMPLE}, not {_kind_of(each)}."
            )
        if any(type(each) is type(other) for other in tools):
            raise ConfigurationError(f"Model setting 'native_tools' holds {type(each).__name__} twice.")
        tools.append(each)
    return tuple(tools)


def _kind_of(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return f"{type(value).__name__} {value!r}" if isinstance(value, str | int) else type(value).__name__


def refuse_tool(tool: NativeTool, *, protocol: str, instead: str = "") -> ConfigurationError:
    """The error for a tool that a protocol does not have.

    Args:
        tool: The tool.
        protocol: The name of the protocol.
        instead: The protocols that have it, as a sentence.
    """
    message = f"The {protocol} protocol has no {type(tool).__name__}; leave it out of 'native_tools'."
    return ConfigurationError(f"{message} {instead}".strip())


def refuse_options(tool: NativeTool, *names: str, protocol: str) -> None:
    """Refuse options of a tool that a protocol does not have.

    Args:
        tool: The tool.
        names: The options that are missing.
        protocol: The name of the protocol.

    Raises:
        ConfigurationError: One of them is set.
    """
    for name in names:
        if getattr(tool, name):
            raise ConfigurationError(
                f"The {protocol} protocol has no {name!r} of {type(tool).__name__}; leave it out."
            )


def location_fields(location: UserLocation) -> dict[str, str]:
    """The fields of a location that are set.

    Args:
        location: The location.
    """
    given = {each.name: getattr(location, each.name) for each in fields(location)}
    return {name: value for name, value in given.items() if value is not None}


def shown_json(value: object) -> str:
    """A part of a native call as JSON, without encrypted content, which only the provider reads.

    Args:
        value: A decoded JSON value; None for nothing.
    """
    return "" if value is None else json.dumps(_readable(value), ensure_ascii=False)


def _readable(value: object) -> object:
    if is_json_mapping(value):
        return {name: _readable(each) for name, each in value.items() if not name.startswith("encrypted_")}
    if is_json_list(value):
        return [_readable(each) for each in value]
    return value
