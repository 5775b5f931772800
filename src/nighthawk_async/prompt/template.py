"""Filling prompt templates (specification 8.2.1). Floor 1.

Each known placeholder is replaced in one pass; what is inserted is never looked at again.
"""

import re
from collections.abc import Iterator, Mapping

from ..types.content import UserContent
from .summary import RenderedSection

__all__ = ["render_system_prompt", "render_user_prompt"]

_PLACEHOLDER = re.compile(r"\$(?:(?P<escaped>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})")


def render_user_prompt(
    template: str, *, program: str, locals_section: RenderedSection, globals_section: RenderedSection
) -> tuple[UserContent, ...]:
    """Fill the user prompt template.

    Args:
        template: The template. `$program`, `$locals` and `$globals`, also in braces, are replaced wherever
            they stand; `$$` is one dollar sign; any other dollar sign stays as it is.
        program: The natural program's text.
        locals_section: The rendered LOCALS section.
        globals_section: The rendered GLOBALS section.

    Returns:
        The prompt's content, adjacent texts merged.
    """
    values: dict[str, tuple[UserContent, ...]] = {
        "program": (program,),
        "locals": locals_section.parts,
        "globals": globals_section.parts,
    }
    return tuple(_merged(_filled(template, values)))


def render_system_prompt(template: str, *, tools: str, outcome: str) -> str:
    """Fill the system prompt template.

    Args:
        template: The template, with `$tools` and `$outcome`.
        tools: What the model needs to know of the step's tools.
        outcome: What the model needs to know of the step's outcome.
    """
    return "".join(
        text for text in _filled(template, {"tools": (tools,), "outcome": (outcome,)}) if type(text) is str
    )


def _filled(template: str, values: Mapping[str, tuple[UserContent, ...]]) -> Iterator[UserContent]:
    position = 0
    for match in _PLACEHOLDER.finditer(template):
        yield template[position : match.start()]
        position = match.end()
        name = match["bare"] or match["braced"]
        if match["escaped"]:
            yield "$"
        elif name in values:
            yield from values[name]
        else:
            yield match[0]
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
