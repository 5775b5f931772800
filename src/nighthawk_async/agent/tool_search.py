"""The search for deferred tools by words: the same catalogue and query give the same tools."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from ..catalog.models import remedy
from ..errors import ConfigurationError, ToolBoundaryError
from ..kernel.tools import FIND_TOOL_NAME, Tool
from ..ports import Model
from .schemas import check_tools

MOST_FOUND = 10
"""The number of tools that one search finds at most."""

_MAX_DESCRIPTION = 200
_MAX_PARAMETERS = 300
_MAX_QUERY_WORDS = 50

_WORD = re.compile(r"[^\W_]+")
_CHANGE_OF_CASE = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=[A-Z])(?=[A-Z][a-z])")
"""A boundary between words of a name that no `_` separates."""

_ENDINGS = ("ing", "es", "ed", "s")
_SHORTEST_STEM = 3
_IGNORED = frozenset(
    ("a", "an", "and", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to", "with")
)

_NAME_WEIGHT = 3.0
_TEXT_WEIGHT = 1.0

_weights: WeakKeyDictionary[Tool, Mapping[str, float]] = WeakKeyDictionary()


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text or a name in lower case, without common endings."""
    for match in _WORD.finditer(text):
        for part in _CHANGE_OF_CASE.split(match[0]):
            word = part.lower()
            if word not in _IGNORED:
                yield _stem(word)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _SHORTEST_STEM and not (ending == "s" and stem.endswith("s")):
            return stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


def ranked(query: str, tools: Collection[Tool]) -> list[Tool]:
    """Return the tools that have words of a query, best first; equally good ones in the order of names.

    A word in a name counts more than one in the description or in a parameter, and a word that few tools have
    counts more than one that many have.
    """
    wanted = list(dict.fromkeys(words_of(query)))[:_MAX_QUERY_WORDS]
    weights = [(tool, _weights_of(tool)) for tool in tools]
    scores: dict[Tool, float] = {}
    for word in wanted:
        having = [(tool, found[word]) for tool, found in weights if word in found]
        rarity = math.log(1 + len(tools) / (len(having) or 1))
        for tool, weight in having:
            scores[tool] = scores.get(tool, 0.0) + weight * rarity
    return sorted(scores, key=lambda tool: (-scores[tool], tool.name))


def _weights_of(tool: Tool) -> Mapping[str, float]:
    if (known := _weights.get(tool)) is not None:
        return known
    weights = dict.fromkeys(words_of(" ".join((tool.description, *tool.parameter_names))), _TEXT_WEIGHT)
    weights |= dict.fromkeys(words_of(tool.name), _NAME_WEIGHT)
    _weights[tool] = weights
    return weights


class ToolFinder:
    """The deferred tools of one step, and those that its model has found.

    Args:
        tools: The deferred tools by name.
        model: The model that is asked; None when that is not known.
    """

    def __init__(self, tools: Mapping[str, Tool], model: Model | None) -> None:
        self._tools = tools
        self._model = model
        self._found: dict[str, Tool] = {}

    def find(self, query: str) -> list[dict[str, str]]:
        """Return the best tools for a query as the model reads them. The next request offers them.

        Args:
            query: Words.

        Raises:
            ToolBoundaryError: There are no words in it.
            ToolRegistrationError: A tool that was found has no JSON Schema.
        """
        if not any(words_of(query)):
            raise ToolBoundaryError(
                kind="invalid_input",
                message="the query has no words",
                guidance="Say in a few words what the tool should do.",
            )
        best = ranked(query, self._tools.values())[:MOST_FOUND]
        for tool in best:
            self._found.setdefault(tool.name, tool)
        return [_described(tool) for tool in best]

    def offer(self) -> Mapping[str, Tool]:
        """Return the tools found so far, in the order in which they were found.

        Raises:
            ToolRegistrationError: The provider would refuse one of them.
        """
        check_tools(tuple(self._found.values()), self._model)
        return dict(self._found)

    def check_found(self, name: str) -> None:
        """Refuse the call of a deferred tool that the current request does not offer.

        Raises:
            ToolBoundaryError: The name is that of a deferred tool.
        """
        if name in self._found:
            raise ToolBoundaryError(
                kind="resolution",
                message=f"the tool {name!r} was found only in this response",
                guidance="Call it in your next response.",
            )
        if name in self._tools:
            raise ToolBoundaryError(
                kind="resolution",
                message=f"the tool {name!r} has to be found before it can be called",
                guidance=f"Look for it with {FIND_TOOL_NAME}, and call it in your next response.",
            )


def check_native_search(model: Model | None) -> None:
    """Refuse the search of the provider where there is none.

    Raises:
        ConfigurationError: The model has none, or is not known.
    """
    if model is None:
        raise ConfigurationError(
            "search='native' needs a model whose provider searches tools, and an agent of your own has no "
            "model that is known here; choose search='lexical'."
        )
    if not model.capabilities.tool_search:
        raise ConfigurationError(
            f"{model.name}: search='native' needs a model whose provider searches tools (the capability "
            f"'tool_search'); choose search='lexical'.{remedy(model.name, 'tool_search')}"
        )


def _described(tool: Tool) -> dict[str, str]:
    """The name, the description and the parameters of a tool, in short."""
    return {
        "name": tool.name,
        "description": _cut(" ".join(tool.description.split()), _MAX_DESCRIPTION),
        "parameters": _cut(_parameters(tool.definition.parameters), _MAX_PARAMETERS),
    }


def _parameters(schema: Mapping[str, Any]) -> str:
    properties = cast("Mapping[str, object]", schema.get("properties", {}))
    required = cast("Sequence[str]", schema.get("required", ()))
    return ", ".join(
        f"{name}{'' if name in required else '?'}{_type(each)}" for name, each in properties.items()
    )


def _type(schema: object) -> str:
    kind: object = cast("Mapping[str, object]", schema).get("type") if isinstance(schema, Mapping) else None
    return f": {kind}" if isinstance(kind, str) else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
