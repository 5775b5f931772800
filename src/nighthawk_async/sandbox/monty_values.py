"""Values between this program and a worker of pydantic-monty.

The worker gives what it cannot hand over, such as a function that code has defined, as its `repr`. A text
that looks like one is suspicious, and the worker is asked what it is.
"""

import re
from typing import Any
from uuid import UUID

from .crossing import Reference, kind_of
from .monty_pool import package
from .sessions import Inside

_HOST_FUNCTION = re.compile(r"nighthawk:(\d+):\w+")
_SUSPICIOUS = re.compile(
    r"<[^<>]*(?:<[^<>]*>[^<>]*)*>|nighthawk:\d+:\w+|(?:range|slice|dict_\w+)\(.*\)|\[\.\.\.\]|\{\.\.\.\}",
    re.DOTALL,
)
_MOST_TEXT = 1_000
_MOST_DEPTH = 100
_LISTS: frozenset[Any] = frozenset({list, tuple})
_COLLECTIONS: frozenset[Any] = frozenset({list, tuple, set, frozenset})
_CONTAINERS: frozenset[Any] = _COLLECTIONS | {dict}
_FIRST_CHARACTERS = frozenset("<nrsd[{")


class Doubtful(Exception):  # noqa: N818  (it asks for another look)
    """A value contains what may be the `repr` of something else."""


class _StandIn:
    """An object of the program, as the package sees it."""

    def __init__(self, reference: Reference, fields: dict[str, Any]) -> None:
        vars(self).update(fields)
        _REFERENCES[id(self)] = reference

    def __del__(self) -> None:
        _REFERENCES.pop(id(self), None)


_REFERENCES: dict[int, Reference] = {}
"""The references that objects stand for: no attribute of the objects, which are the record's own."""


class MontyValues:
    """The values of one session."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._references: dict[int, Reference] = {}
        self.fields: dict[str, tuple[str, ...]] = {}
        """The names of the fields of records, by the names of their classes."""

    def given(self, value: Any) -> Any:
        """Return a value that crosses as the package takes it."""
        kind = kind_of(value)
        if kind is Reference:
            return self._wrapper(value)
        if kind is dict:
            return {key: self.given(each) for key, each in value.items()}
        if kind in _LISTS:
            return kind([self.given(each) for each in value])
        return value

    def _wrapper(self, reference: Reference) -> Any:
        made = self._made.get(reference.key)
        if made is None:
            self._references[reference.key] = reference
            if reference.fields is not None:
                self.fields[reference.name] = tuple(reference.fields)
            made = self._made[reference.key] = self._make(reference)
        return made

    def _make(self, reference: Reference) -> Any:
        if reference.kind == "function":
            return _stub(f"nighthawk:{reference.key}:{reference.name}")
        if reference.kind == "class":
            cls: Any = type(reference.name, (_StandIn,), {})
            _REFERENCES[id(cls)] = reference
            return package.ClassType(cls, id=UUID(int=reference.key), init=True)
        fields = {name: self.given(each) for name, each in (reference.fields or {}).items()}
        class_type = None
        if reference.class_key:
            class_reference = Reference(key=reference.class_key, kind="class", name=reference.name)
            class_type = self._wrapper(class_reference)
        cls = type(reference.name, (_StandIn,), {}) if class_type is None else class_type.value
        return package.ClassInstance(
            cls(reference, fields),
            id=UUID(int=reference.key),
            eager_attrs=tuple(fields),
            class_type=class_type,
        )

    def find(self, identity: UUID | None) -> Reference | None:
        """The reference with the number that a worker gives; None for one that it was not sent."""
        return None if identity is None else self._references.get(identity.int)

    def find_function(self, name: str) -> Reference | None:
        """The function that a worker calls; None for one that it was not sent."""
        match = _HOST_FUNCTION.fullmatch(name)
        return None if match is None else self._references.get(int(match[1]))

    def taken(self, value: Any, *, is_certain: bool = False, depth: int = 0) -> Any:
        """Return what a worker has given as it crosses.

        Args:
            value: The value.
            is_certain: Whether no text in it is the `repr` of something else.
            depth: The number of containers that it is in.

        Raises:
            Doubtful: One may be, or a record in it may have changed.
        """
        kind = kind_of(value)
        if kind is str:
            if not is_certain and is_suspicious(value):
                raise Doubtful(value)
            return value
        if kind in _CONTAINERS:
            if depth > _MOST_DEPTH:
                return Inside(kind=kind.__name__, text="nested too deeply")
            items = [self.taken(each, is_certain=is_certain, depth=depth + 1) for each in value]
            if kind in _COLLECTIONS:
                return kind(items)
            values = [self.taken(each, is_certain=is_certain, depth=depth + 1) for each in value.values()]
            made: Any = dict(zip(items, values, strict=True))
            return made
        if isinstance(value, _StandIn) and not is_certain:
            raise Doubtful("a record")
        return self.object_of(value)

    def taken_argument(self, value: Any) -> Any:
        """Return an argument of a call as it crosses.

        Raises:
            Doubtful: It contains what cannot leave the sandbox, or looks like that.
        """
        kind = kind_of(value)
        if kind is str and is_suspicious(value):
            function = self.find_function(value)
            if function is None:
                raise Doubtful(f"{value[:100]} cannot leave the sandbox: pass data")
            return function
        if kind in _COLLECTIONS:
            return kind([self.taken_argument(each) for each in value])
        if kind is dict:
            pairs: Any = value.items()
            taken: Any = {self.taken_argument(key): self.taken_argument(each) for key, each in pairs}
            return taken
        return self.object_of(value)

    def object_of(self, value: Any) -> Any:
        """Return the reference that an object from a worker stands for; other values themselves."""
        reference = _REFERENCES.get(id(value))
        if reference is not None:
            return self._references.get(reference.key, reference)
        kind = kind_of(value)
        if kind is package.MontyClassProxy or kind is package.MontyClassTypeProxy:
            found = self._references.get(value.id.int)
            return found or Inside(kind=value.name, text=repr(value.attributes))
        if kind is package.MontyStdTypeProxy:
            return Inside(kind=value.kind, text=value.name)
        return value

    def described(self, value: Any) -> Any:
        """Return what code of `monty_prelude` has described as it crosses."""
        tag, content = value
        match tag:
            case "data":
                return self.taken(content, is_certain=True)
            case "list" | "tuple" | "set" | "frozenset":
                return _KINDS[tag](map(self.described, content))
            case "dict":
                return {self.described(key): self.described(each) for key, each in content}
            case "function":
                return self.find_function(content) or Inside(kind="function", text=content)
            case "record":
                (made, fields) = content
                found = self.object_of(made)
                if not isinstance(found, Reference):
                    return found
                return _with_fields(found, {name: self.described(each) for name, each in fields.items()})
            case "type" if kind_of(content) is not str:  # a class of the sandbox itself comes as its `repr`
                return self.object_of(content)
            case _:
                return Inside(kind=tag, text=content)


def is_suspicious(text: str) -> bool:
    """Whether a text may be the `repr` of something that a worker cannot hand over."""
    return (
        text[:1] in _FIRST_CHARACTERS and len(text) < _MOST_TEXT and _SUSPICIOUS.fullmatch(text) is not None
    )


_KINDS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def _with_fields(reference: Reference, fields: dict[str, Any]) -> Reference:
    if reference.kind != "record":
        return reference
    return Reference(
        key=reference.key,
        kind="record",
        name=reference.name,
        fields=fields,
        class_key=reference.class_key,
    )


def _stub(name: str) -> Any:
    def stub() -> None: ...

    stub.__name__ = stub.__qualname__ = name
    return stub


PRELUDE = """
def _nh_described(v, fields):
    t = type(v)
    n = t.__name__
    if v is None or n in ('str', 'int', 'float', 'bool', 'bytes'):
        return ('data', v)
    if n in ('list', 'tuple', 'set', 'frozenset'):
        return (n, [_nh_described(e, fields) for e in v])
    if n == 'dict':
        return (n, [(_nh_described(k, fields), _nh_described(v[k], fields)) for k in v])
    if n == 'function' or n == 'builtin_function_or_method':
        return ('function', v)
    if n in fields:
        found = {}
        for name in fields[n]:
            try:
                found[name] = _nh_described(getattr(v, name), fields)
            except AttributeError:
                pass
        return ('record', (v, found))
    if n.startswith('dict_') or n.endswith('iterator'):
        return (n, repr(v))
    if n == 'type':
        return (n, v)
    if n in ('coroutine', 'range', 'slice', 'module', 'TextIOWrapper'):
        return (n, repr(v))
    return ('data', v)

async def _nh_awaited(v):
    n = type(v).__name__
    if n == 'coroutine':
        return await _nh_awaited(await v)
    if n == 'list' or n == 'tuple' or n == 'set' or n == 'frozenset':
        items = await _nh_gathered(list(v))
        if n == 'tuple':
            return tuple(items)
        if n == 'set':
            return set(items)
        return items if n == 'list' else frozenset(items)
    if n == 'dict':
        items = await _nh_gathered(list(v.values()))
        return dict(zip(list(v), items))
    return v

async def _nh_gathered(items):
    import asyncio
    return await asyncio.gather(*[_nh_awaited(e) for e in items])
"""
"""Code that describes values exactly, and awaits calls in them."""
