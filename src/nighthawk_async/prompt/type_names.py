"""Types written by the names that the expressions of one block can use."""

import builtins
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, cast

from .plain_text import class_dictionary, has_base, instance_dictionary, single_line, type_module

_NAME_CHARACTERS = 120
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_MISSING = object()

_qualified_name_of_type = type.__dict__["__qualname__"].__get__


class TypeNames:
    """Names of types in one block, and the types written so far.

    A type is written by the nearest of the names under which the block's expressions reach it: its own name,
    another name bound to it, the name of an enclosing class or of a module that holds it. A type that is out
    of reach keeps its own name, with a number if that name means something else.

    Args:
        scopes: The names that expressions can use with their values, the innermost scope first. Builtins
            come after them.
    """

    __slots__ = ("_by_identity", "_modules", "_scopes", "_texts", "_written", "described", "mentioned", "met")

    def __init__(self, *scopes: Mapping[str, object]) -> None:
        self._scopes = (*scopes, vars(builtins))
        self._by_identity: dict[int, str] | None = None
        self._modules: dict[str, types.ModuleType] = {}
        self._written: dict[int, tuple[object, str, bool]] = {}
        self._texts: dict[str, object] = {}
        self.mentioned: dict[int, object] = {}
        """The types that were written, by identity, in order."""
        self.met: dict[int, object] = {}
        """The classes of values that are shown, likewise."""
        self.described: dict[int, object] = {}
        """Those of them whose methods and fields are shown with a value."""

    def written(self, named: object) -> str:
        """The name of a class, a `NewType` or a type alias in this block, which is noted as mentioned.

        Args:
            named: The class, `NewType` or alias.
        """
        self.mentioned[id(named)] = named
        return self._known(named)[1]

    def text_of(self, named: object) -> str:
        """The same name, without noting the type as mentioned.

        Args:
            named: The class, `NewType` or alias.
        """
        return self._known(named)[1]

    def leads_to(self, text: str, named: object) -> bool:
        """Whether a name, with or without dots, means a type.

        Args:
            text: The name.
            named: The class, `NewType` or alias.
        """
        root, *path = text.split(".")
        value = self._value(root)
        return _path_to(named, root, value, path) == text

    def is_reachable(self, named: object) -> bool:
        """Whether the block's expressions reach a class, a `NewType` or a type alias.

        Args:
            named: The class, `NewType` or alias.
        """
        return self._known(named)[2]

    def apart(self) -> "TypeNames":
        """The same names, with separate notes of mentioned types."""
        other = TypeNames.__new__(TypeNames)
        other._scopes, other._by_identity, other._modules = self._scopes, self._by_identity, self._modules
        other._written, other._texts = self._written, self._texts
        other.mentioned, other.met, other.described = {}, self.met, self.described
        return other

    def looked_up(self, name: str) -> object:
        """The value of a name; the `Ellipsis` object when there is none.

        Args:
            name: The name.
        """
        value = self._value(name)
        return ... if value is _MISSING else value

    def find(self, named: object) -> str | None:
        """The nearest name under which the block's expressions reach a type; None when there is none.

        Args:
            named: The class, `NewType` or alias.
        """
        path = own_name(named).split(".")
        if self._value(path[-1]) is named and path[-1].isidentifier():
            return path[-1]
        if self._by_identity is None:
            self._index()
        alias = cast("dict[int, str]", self._by_identity).get(id(named))
        if alias is not None:
            return alias
        dotted = [text for text in self._dotted(named, path) if text]
        return min(dotted, key=lambda text: (text.count("."), len(text), text), default=None)

    def _known(self, named: object) -> tuple[object, str, bool]:
        known = self._written.get(id(named))
        if known is None:
            found = self.find(named)
            text = self._free_text(named) if found is None else found
            self._texts[text] = named
            known = self._written[id(named)] = (named, text, found is not None)
        return known

    def _free_text(self, named: object) -> str:
        """The name of a type out of reach, which must not be the name of another."""
        name = own_name(named).rpartition(".")[2]
        number, text = 1, name
        while self._texts.get(text, named) is not named or _is_type(self._value(text)):
            number += 1
            text = f"{name}{number}"
        return text

    def _value(self, name: str) -> object:
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        return _MISSING

    def _index(self) -> None:
        """Record the names of types and modules; of several, the shortest of the innermost scope."""
        self._by_identity = index = {}
        seen: set[str] = set()
        for scope in self._scopes[:-1]:
            for name in sorted(scope.keys() - seen, key=lambda name: (len(name), name)):
                value = scope[name]
                if name.startswith("__") or not name.isidentifier():
                    continue
                if has_base(type(value), types.ModuleType):
                    self._modules.setdefault(name, cast(types.ModuleType, value))
                elif id(value) not in index and _is_type(value):
                    index[id(value)] = name
            seen.update(scope)

    def _dotted(self, named: object, path: list[str]) -> Iterator[str]:
        """The paths to a type through a class or a module, empty texts among them."""
        if not all(map(str.isidentifier, path)):
            return  # a generic model with arguments, or a class made by a call with such a name
        yield _path_to(named, path[0], self._value(path[0]), path[1:])
        module = _module_name(named).split(".")
        for name, reached in self._modules.items():
            yield _path_to(named, name, reached, path)
            package = str(instance_dictionary(reached).get("__name__")).split(".")
            if module[: len(package)] == package:
                yield _path_to(named, name, reached, [*module[len(package) :], *path])


def own_name(named: object) -> str:
    """The name of a type where it is defined, with those of the enclosing classes.

    Args:
        named: A class, a `NewType` or a type alias.
    """
    if has_base(type(named), type):
        qualified = _qualified_name_of_type(cast("type", named))
        return single_line(qualified.rpartition("<locals>.")[2], _NAME_CHARACTERS)
    name: object = cast(Any, named).__name__
    return single_line(name, _NAME_CHARACTERS) if type(name) is str else "..."


def is_standard(named: object) -> bool:
    """Whether a type belongs to the standard library.

    Args:
        named: A class, a `NewType` or a type alias.
    """
    return _module_name(named).partition(".")[0] in sys.stdlib_module_names


def _module_name(named: object) -> str:
    if has_base(type(named), type):
        return type_module(cast("type", named))
    module = cast(Any, named).__module__
    return module if type(module) is str else ""


def is_of_library(named: object) -> bool:
    """Whether a type belongs to the standard library or to an installed one.

    Args:
        named: A class, a `NewType` or a type alias.
    """
    name = _module_name(named)
    return is_standard(named) or _INSTALLED.search(_file_of(sys.modules.get(name))) is not None


def is_library_module(module: types.ModuleType) -> bool:
    """Whether a module belongs to the standard library or to an installed one.

    Args:
        module: The module. No code of it runs.
    """
    name = instance_dictionary(module).get("__name__")
    root = name.partition(".")[0] if type(name) is str else ""
    return root in sys.stdlib_module_names or _INSTALLED.search(_file_of(module)) is not None


def _file_of(module: types.ModuleType | None) -> str:
    file = None if module is None else instance_dictionary(module).get("__file__")
    return file if type(file) is str else ""


def _is_type(value: object) -> bool:
    # Names of modules and functions are no types; aliases and `NewType` are named like classes.
    return has_base(type(value), type) or type(value).__name__ in ("NewType", "TypeAliasType")


def _path_to(named: object, root: str, value: object, path: list[str]) -> str:
    """Names with dots from a value to a type; empty when they do not lead to it."""
    for name in path:
        if has_base(type(value), types.ModuleType):
            value = instance_dictionary(value).get(name)
        elif has_base(type(value), type):
            value = class_dictionary(cast("type", value)).get(name)
        else:
            return ""
    return ".".join((root, *path)) if value is named else ""
