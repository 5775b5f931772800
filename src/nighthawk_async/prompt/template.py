"""Filling prompt templates (specification 8.2.1).

Each known placeholder is replaced in one pass; what is inserted is never looked at again.
"""

import re
from collections.abc import Iterator, Mapping

from ..configuration import PLACEHOLDER
from ..types.content import UserContent
from .summary import RenderedSection

__all__ = ["render_system_prompt", "render_user_prompt"]

_PARAGRAPH_END = re.compile(r"\n\n?")


def render_user_prompt(
    template: str,
    *,
    program: str,
    locals_section: RenderedSection,
    globals_section: RenderedSection,
    types: str = "",
    tool_result_max_tokens: int = 0,
) -> tuple[UserContent, ...]:
    """Fill the user prompt template.

    Args:
        template: The template. `$program`, `$locals`, `$globals`, `$types` and `$tool_result_max_tokens`,
            also in braces, are replaced wherever they stand; `$$` is one dollar sign; any other dollar sign
            stays as it is.
        program: The natural program's text.
        locals_section: The rendered LOCALS section.
        globals_section: The rendered GLOBALS section.
        types: The stubs of types.
        tool_result_max_tokens: The limit of a tool result.

    Returns:
        The prompt's content, adjacent texts merged.
    """
    values: dict[str, tuple[UserContent, ...]] = {
        "program": (program,),
        "locals": locals_section.parts,
        "globals": globals_section.parts,
        "types": (types,),
        "tool_result_max_tokens": (str(tool_result_max_tokens),),
    }
    return tuple(_merged(_filled(template, values)))


def render_system_prompt(
    template: str, *, tools: str, outcome: str, types: str = "", tool_result_max_tokens: int = 0
) -> str:
    """Fill the system prompt template.

    Args:
        template: The template, with `$types`, `$tools`, `$outcome` and `$tool_result_max_tokens`.
        tools: What the model needs to know of the step's tools.
        outcome: What the model needs to know of the step's outcome.
        types: The stubs of types.
        tool_result_max_tokens: The limit of a tool result.
    """
    values: dict[str, tuple[UserContent, ...]] = {
        "types": (types,),
        "tools": (tools,),
        "outcome": (outcome,),
        "tool_result_max_tokens": (str(tool_result_max_tokens),),
    }
    return "".join(text for text in _filled(template, values) if type(text) is str)


def _filled(template: str, values: Mapping[str, tuple[UserContent, ...]]) -> Iterator[UserContent]:
    position = 0
    for match in PLACEHOLDER.finditer(template):
        yield template[position : match.start()]
        position = match.end()
        name = match["bare"] or match["braced"]
        if match["escaped"]:
            yield "$"
        elif name not in values:
            yield match[0]
        elif values[name] == ("",) and template[: match.start()].endswith("\n\n"):
            # An empty paragraph goes with the blank line after it.
            end = _PARAGRAPH_END.match(template, position)
            position = end.end() if end else position
        else:
            yield from values[name]
    yield template[position:]


def _merged(content: Iterator[UserContent]) -> Iterator[UserContent]:
    texts: list[str] = []
    for item in content:
        if isinstance(item, str):
            texts.append(item)
            continue
        if any(texts):
            yield "".join(texts)
        texts.clear()
        yield item
    if any(texts):
        yield "".join(texts)
