"""The search for deferred tools: by functions, or by words, where the same query gives the same tools."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import isawaitable
from typing import Any, cast
from weakref import WeakKeyDictionary

from ..catalog.models import remedy
from ..errors import ConfigurationError, ToolBoundaryError, ToolSearchError
from ..kernel.tools import FIND_TOOL_NAME, Tool, ToolSearchFunction
from ..ports import Model
from ..suggestions import did_you_mean
from ..types.messages import DeferredTool
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
        searches: The functions that search some of the tools, by their names; words find the others.
    """

    def __init__(
        self, tools: Mapping[str, Tool], model: Model | None, searches: Mapping[str, ToolSearchFunction]
    ) -> None:
        self._tools = tools
        self._model = model
        self._functions = list(dict.fromkeys(searches.values()))
        self._searched = {
            function: {name: tools[name] for name, each in searches.items() if each is function}
            for function in self._functions
        }
        self._by_words = [tool for name, tool in tools.items() if name not in searches]
        self._findings: list[list[Tool]] = []  # of each search, in the order of the calls

    def find(self, query: str) -> Callable[[], object]:
        """Return a function that finds the best tools for a query. The next request offers them.

        The function returns the tools as the model reads them, or an awaitable of these. What words find is
        found here already.

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
        finding: list[Tool] = []
        self._findings.append(finding)
        by_words = ranked(query, self._by_words)[:MOST_FOUND]
        if not self._functions:
            found = _noted(finding, by_words)
            return lambda: found
        return lambda: self._ask_functions(query, by_words, finding)

    def _ask_functions(self, query: str, by_words: list[Tool], finding: list[Tool]) -> object:
        given = [
            function(query, tuple(map(_as_deferred, self._searched[function].values())))
            for function in self._functions
        ]

        async def await_them() -> list[dict[str, str]]:
            awaited = [await each if isawaitable(each) else each for each in given]
            return _noted(finding, [*self._chosen(awaited), *by_words])

        if any(map(isawaitable, given)):
            return await_them()
        return _noted(finding, [*self._chosen(given), *by_words])

    def _chosen(self, given: Iterable[Any]) -> Iterator[Tool]:
        for function, names in zip(self._functions, given, strict=True):
            tools = self._searched[function]
            yield from (tools[name] for name in _checked_names(function, names, tools))

    @property
    def _found(self) -> dict[str, Tool]:
        return {tool.name: tool for finding in self._findings for tool in finding}

    def offer(self) -> Mapping[str, Tool]:
        """Return the tools found so far, in the order in which they were found.

        Raises:
            ToolRegistrationError: The provider would refuse one of them.
        """
        found = self._found
        check_tools(tuple(found.values()), self._model)
        return found

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


def _noted(finding: list[Tool], tools: Iterable[Tool]) -> list[dict[str, str]]:
    """Note that tools were found, and return them as the model reads them."""
    finding += dict.fromkeys(tools)
    return [_described(tool) for tool in finding]


def _as_deferred(tool: Tool) -> DeferredTool:
    return DeferredTool(name=tool.name, description=tool.description, parameters=tool.parameter_names)


def _checked_names(function: ToolSearchFunction, given: Any, tools: Mapping[str, Tool]) -> list[str]:
    """The names that a function gave.

    Raises:
        ToolSearchError: They are something else than names of its tools.
    """
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        what = f"must return the names of tools, not {type(given).__name__!r}"
        raise ToolSearchError(f"the search {name} {what}", hook=name)
    names: list[str] = []
    for each in given:
        if not isinstance(each, str) or each not in tools:
            near = did_you_mean(each, tools) if isinstance(each, str) else ""
            raise ToolSearchError(
                f"the search {name} returned {each!r}, the name of none of the {len(tools)} tools that it "
                f"was "
                f"given.{near}",
                hook=name,
            )
        names.append(each)
    return names


def check_native_search(model: Model | None, searches: Mapping[str, ToolSearchFunction]) -> None:
    """Refuse the search of the provider where there is none, or where functions search too.

    Raises:
        ConfigurationError: The model has none, or is not known; or functions search some of the tools.
    """
    if searches:
        raise ConfigurationError(
            "search='native' hands all deferred tools of a step to the provider, but a function searches "
            "some of "
            f"them, {next(iter(searches))!r} for example; choose one search for all tool sets of the step."
        )
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
