"""Descriptions of parameters from the docstring of a tool. Floor 3."""

import re
from collections.abc import Collection, Mapping

from msgspec import Struct

__all__ = ["Documentation", "read_docstring"]

_STYLES: Mapping[str, re.Pattern[str]] = {
    "GOOGLE": re.compile(
        r"^(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments)[ \t]*:[ \t]*\n"
        r"(?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+",
        re.MULTILINE,
    ),
    "NUMPYDOC": re.compile(
        r"^(?:Parameters|Params|Arguments|Other Parameters)[ \t]*\n-{3,}[ \t]*\n"
        r"(?:(?!.+\n-{3,}[ \t]*$).*(?:\n|\Z))+?(?=.+\n-{3,}[ \t]*$|\Z)",
        re.MULTILINE,
    ),
    "REST": re.compile(
        r"^:(?:param|parameter|arg|argument|key|keyword|type)\b[^:\n]*:.*(?:\n[ \t]+\S.*)*(?:\n|\Z)",
        re.MULTILINE,
    ),
}
"""How parameters look in each style, by the names that the library which reads them has for the styles."""


class Documentation(Struct, frozen=True, kw_only=True):
    """A docstring, taken apart.

    Args:
        description: The docstring without what it says of single parameters.
        parameters: What it says of each parameter.
    """

    description: str
    parameters: dict[str, str]


def read_docstring(text: str, names: Collection[str]) -> Documentation:
    """Take a docstring in the style of Google, NumPy or Sphinx apart.

    Args:
        text: The docstring, without its indentation.
        names: The parameters of the function. A docstring that describes others is left as it is.
    """
    for style, pattern in _STYLES.items():
        if pattern.search(text):
            parameters = _parameters(text, style)
            if parameters and parameters.keys() <= set(names):
                rest = re.sub(r"\n{3,}", "\n\n", pattern.sub("", text))
                return Documentation(description=rest.strip(), parameters=parameters)
    return Documentation(description=text, parameters={})


def _parameters(text: str, style: str) -> dict[str, str]:
    import docstring_parser  # here, because few programs have such docstrings

    try:
        parsed = docstring_parser.parse(text, docstring_parser.DocstringStyle[style])
    except docstring_parser.ParseError:
        return {}
    return {
        parameter.arg_name.lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in parsed.params
    }
