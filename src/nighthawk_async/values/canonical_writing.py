"""Parts of canonical forms: plain values, names of classes, functions and code, and the writer.

A form ends itself: its length, or a character that is not part of it, comes before the next one.

Plain are texts, numbers, bytes and None, and lists and dicts of plain values. It would not tell tuples from
lists, or a subclass from its base, so those are none.
"""

import array
import datetime
import decimal
import dis
import fractions
import hashlib
import inspect
import ipaddress
import pathlib
import re
import sys
import types
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from types import CodeType, EllipsisType, FunctionType, ModuleType, NoneType, NotImplementedType
from typing import Any, TypeAlias, TypeGuard, cast

import msgspec

from ..natural.tree import CLOSURE_NAMES
from ..pickling import PicklableError
from ..prompt.plain_text import class_of


def sized(tag: bytes, content: bytes) -> bytes:
    """A form of any bytes."""
    return b"%b%d:%b" % (tag, len(content), content)


def text_form(text: str) -> bytes:
    """The form of a text, also of one with halves of surrogate pairs."""
    return sized(b"s", str.encode(text, "utf-8", "surrogatepass"))


def integer_form(number: int) -> bytes:
    """The form of a whole number of any size."""
    length = (int.bit_length(number) + 8) // 8
    return sized(b"i", int.to_bytes(number, length, "big", signed=True))


def float_form(number: float) -> bytes:
    """The form of a float; infinities, both zeros and the value that is no number are distinct."""
    return sized(b"f", float.hex(number).encode())


def _complex_form(number: complex) -> bytes:
    return sized(b"c", float_form(number.real) + float_form(number.imag))


def _decimal_form(number: decimal.Decimal) -> bytes:
    sign, digits, exponent = decimal.Decimal.as_tuple(number)
    return sized(b"D", f"{sign} {''.join(map(str, digits))} {exponent}".encode())


def _fraction_form(number: fractions.Fraction) -> bytes:
    return sized(b"Q", integer_form(number.numerator) + integer_form(number.denominator))


def _date_form(day: datetime.date) -> bytes:
    return sized(b"d", datetime.date.isoformat(day).encode())


def _difference_form(time: datetime.timedelta) -> bytes:
    return sized(b"e", f"{time.days} {time.seconds} {time.microseconds}".encode())


def _range_form(numbers: range) -> bytes:
    return sized(b"r", b"".join(map(integer_form, (numbers.start, numbers.stop, numbers.step))))


_BYTES_OF_ARRAYS: Callable[[Any], bytes] = vars(array.array)["tobytes"]


def _array_form(numbers: "array.array[Any]") -> bytes:
    return sized(b"a", numbers.typecode.encode() + _BYTES_OF_ARRAYS(numbers))


def _pattern_form(pattern: "re.Pattern[Any]") -> bytes:
    text = pattern.pattern
    form = text_form(text) if isinstance(text, str) else sized(b"b", text)
    return sized(b"p", form + integer_form(pattern.flags))


def written_form(tag: bytes, write: Callable[[Any], str]) -> Callable[[Any], bytes]:
    """The form of a type whose values are written as texts, one for each value."""
    return lambda value: sized(tag, write(value).encode("utf-8", "surrogatepass"))


LEAVES: Mapping[type[Any], Callable[[Any], bytes]] = {
    NoneType: lambda _: b"N;",
    bool: lambda value: b"T;" if value else b"F;",
    str: text_form,
    int: integer_form,
    float: float_form,
    complex: _complex_form,
    bytes: lambda value: sized(b"b", value),
    bytearray: lambda value: sized(b"y", bytes(value)),
    EllipsisType: lambda _: b".;",
    NotImplementedType: lambda _: b"n;",
    decimal.Decimal: _decimal_form,
    fractions.Fraction: _fraction_form,
    datetime.date: _date_form,
    datetime.timedelta: _difference_form,
    uuid.UUID: lambda value: sized(b"U", integer_form(value.int)),
    range: _range_form,
    array.array: _array_form,
    re.Pattern: _pattern_form,
    **{
        kind: written_form(kind.__name__.encode(), kind.__str__)
        for kind in (
            *(pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())),
            *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
            *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
        )
    },
}
"""The functions that return the forms of values, by their exact types."""

BASES: tuple[type[Any], ...] = (
    *(str, int, float, complex, bytes, bytearray, decimal.Decimal, fractions.Fraction),
    *(
        datetime.timedelta,
        uuid.UUID,
        array.array,
        *(kind for kind in LEAVES if issubclass(kind, pathlib.PurePath)),
    ),
    *(kind for kind in LEAVES if kind.__module__ == "ipaddress"),
)
"""The types of which a program may derive classes; their instances are also values of the base."""


PLAIN = frozenset({str, int, float, bool, bytes, types.NoneType})
ENCODER = msgspec.msgpack.Encoder(order="deterministic")
UNENCODABLE = (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError)
"""Errors of the encoder: a number is too large, for example."""

_DICTS: frozenset[type[Any]] = frozenset({dict})
_LISTS: frozenset[type[Any]] = frozenset({list})
_HOLDERS = _LISTS | _DICTS
_NESTED: frozenset[type[Any]] = PLAIN | _HOLDERS
_VALUES = dict[Any, Any].values
_TEXT: frozenset[type[Any]] = frozenset({str})
_MAX_LEVELS = 8  # that are looked at
_MAX_NESTED = 1_000_000


def are_plain(values: Collection[object]) -> bool:
    """Whether values are plain, and neither too many nor too deep below each other."""
    for _ in range(_MAX_LEVELS):
        kinds: set[type[Any]] = {type(value) for value in values}
        if kinds <= PLAIN:
            return True
        if not kinds <= _NESTED:
            return False
        nested = _of_kinds(values, kinds, _HOLDERS)
        if sum(map(len, nested)) > _MAX_NESTED:
            return False
        if dict in kinds:
            dicts = _of_kinds(nested, kinds & _HOLDERS, _DICTS)
            if not have_text_keys(dicts):
                return False
            lists = _of_kinds(nested, kinds & _HOLDERS, _LISTS) if list in kinds else ()
            nested = [*map(_VALUES, dicts), *lists]
        values = list(chain.from_iterable(nested))
    return False


def _of_kinds(
    values: Collection[Any], kinds: set[type[Any]], wanted: frozenset[type[Any]]
) -> Collection[Any]:
    """The values of some types; all of them if there are no others."""
    return values if kinds <= wanted else [each for each in values if type(each) in wanted]


def have_text_keys(values: Iterable[dict[Any, Any]]) -> bool:
    """Whether all keys of some dicts are texts."""
    return {type(key) for each in values for key in each} <= _TEXT


_HEAP, _DISALLOWS_INSTANTIATION, _IMMUTABLE = 1 << 9, 1 << 7, 1 << 8  # flags of types in CPython
_WORD = object.__basicsize__ // 2
_WITHOUT_STATE = frozenset({"abc", "typing", "typing_extensions"})
"""Modules whose classes serve as bases, and give their instances no state."""

_LIBRARY = __name__.partition(".")[0]
_FORMER_MODULES: Mapping[str, str] = {
    "agent.task.AgentTask": "executors.agent_protocol",
    "agent.task.StepExecutionAgent": "executors.agent_protocol",
    "coding_agents.settings.ClaudeCodeCliSettings": "executors.coding_agent_settings",
    "coding_agents.settings.ClaudeCodeSdkSettings": "executors.coding_agent_settings",
    "coding_agents.settings.CodexSettings": "executors.coding_agent_settings",
    "evals.case_sets.named_splits": "evals.split",
    "evals.case_sets.variants": "evals.case_variants",
    "evals.exports.html_report.report_as_page": "evals.html_report",
    "evals.exports.junit.junit_xml": "evals.junit",
    "evals.exports.markdown.markdown_table": "evals.markdown",
    "evals.exports.other_tools.export_inspect_ai": "evals.inspect_ai_export",
    "evals.exports.other_tools.export_promptfoo": "evals.promptfoo_export",
    "evals.exports.report_history.history": "evals.report_history",
    "evals.exports.report_tree.report_as_tree": "evals.report_tree",
    "evals.grid.Arm": "evals.arms",
    "evals.scores.cost_at_most": "evals.scorers",
    "evals.scores.equals": "evals.scorers",
    "evals.scores.holds": "evals.scorers",
    "evals.scores.json_difference": "evals.scorers",
    "evals.scores.matches_schema": "evals.scorers",
    "evals.scores.seconds_at_most": "evals.scorers",
    "evals.scores.similar_text": "evals.scorers",
    "kernel.actor.StepActor": "runtime.step_actor",
    "kernel.commands.blocking": "runtime.blocking",
    "kernel.context.AsyncStepExecutor": "runtime.step_executor",
    "kernel.context.ConfigurableStepExecutor": "runtime.step_executor",
    "kernel.context.StepContext": "runtime.step_context",
    "kernel.context.SyncStepExecutor": "runtime.step_executor",
    "kernel.environment.get_current_step_actor": "runtime.environment",
    "kernel.environment.get_current_step_context": "runtime.environment",
    "kernel.environment.get_execution_ref": "runtime.environment",
    "kernel.environment.get_implicit_references": "runtime.environment",
    "kernel.environment.get_step_executor": "runtime.environment",
    "kernel.environment.get_system_prompt_suffix_fragments": "runtime.environment",
    "kernel.environment.get_usage_meter": "runtime.environment",
    "kernel.environment.get_user_prompt_suffix_fragments": "runtime.environment",
    "kernel.environment.resource": "runtime.resources",
    "kernel.policy.ModelCall": "runtime.policy",
    "kernel.policy.Policy": "runtime.policy",
    "kernel.policy.StepCommit": "runtime.policy",
    "kernel.tool_sets.ForeignTool": "runtime.tool_sets",
    "kernel.tool_sets.tool": "runtime.tool_decorator",
    "kernel.tool_sets.tool_set": "runtime.tool_sets",
    "kernel.tools.RunContext": "runtime.tool_function",
    "kernel.tools.Tool": "runtime.tool_function",
    "kernel.tools.ToolSet": "runtime.tool_scope",
    "kernel.tools.make_tool_function": "runtime.tool_function",
    "kernel.usage_meter.StepSnapshot": "runtime.usage_meter",
    "kernel.usage_meter.UsageMeter": "runtime.usage_meter",
    "models.batched_model.batched": "models.batched",
    "policies.attempts.samples.current_seed": "runtime.samples",
    "policies.partial_readers.partial_values": "runtime.partial_delivery",
    "policies.shared_objects.bound_objects.MutationReport": "policies.shared_objects.report",
    "telemetry_settings.configure_telemetry": "runtime.telemetry_settings",
    "transcripts.transcript.Transcript": "executors.transcripts",
    "transcripts.transcript.transcript": "executors.transcripts",
    "values.snapshots.shared": "runtime.snapshot",
}
"""The modules that public classes and functions of this library were in, by their full names of today."""

_MAIN = "__main__"
_MAIN_ON_WORKERS = "__mp_main__"
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)
"""The flags of code that say how it is called."""
_MUTABLE = (list, dict, set, bytearray, deque)
_MUTATORS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"}
    | {"remove", "setdefault", "sort", "update"}
)
"""Methods by which lists, dicts and sets are changed."""


def module_of(value: object) -> str:
    """The name of the module of a class or a function, the same in the program and on its workers."""
    if isinstance(value, FunctionType):
        name: object = value.__module__
    else:
        name = type.__dict__["__module__"].__get__(value)  # also of classes that are written in C
    return _MAIN if name == _MAIN_ON_WORKERS else str(name)


def class_attribute(kind: type[Any], name: str, default: object = None) -> Any:
    """An attribute of a class, without code of its metaclass."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), default)


def type_name(kind: type[Any]) -> str:
    """The full name of a class."""
    return former_name(f"{module_of(kind)}.{type.__dict__['__qualname__'].__get__(kind)}")


def former_name(name: str) -> str:
    """The full name that journals have recorded for a class or function of this library that moved since.

    Guarded by `test_what_moved_keeps_the_digests_that_journals_have_recorded`.
    """
    library, _, inside = name.partition(".")
    if library != _LIBRARY or (module := _FORMER_MODULES.get(inside)) is None:
        return name
    return f"{library}.{module}.{inside.rpartition('.')[2]}"


def is_of_library(function: FunctionType) -> bool:
    """Whether a function was made by a decorator of this library."""
    return str(function.__globals__.get("__name__", "")).partition(".")[0] == _LIBRARY


def is_importable(function: FunctionType) -> bool:
    """Whether a function is what its name stands for in its module."""
    return stands_for(function, function.__module__, function.__qualname__)


def stands_for(value: object, module: object, qualname: str) -> bool:
    """Whether a class or a function is what a name stands for in a module."""
    if "<" in qualname or not isinstance(module, str):
        return False
    found: Any = sys.modules.get(module)
    if found is None:
        return False
    for name in qualname.split("."):
        held = found.__dict__ if isinstance(found, ModuleType) or issubclass(type(found), type) else {}
        if name not in held:  # of a module that loads its contents when they are used
            return isinstance(found, ModuleType) and "__getattr__" in held
        found = held[name]
        if isinstance(found, staticmethod | classmethod):
            found = cast("Any", found).__func__
    return found is value


def plain_cells(function: FunctionType) -> Iterator[tuple[str, bytes]]:
    """The variables around a function that hold plain values, and the types of what the others hold."""
    for name, value, is_changed in cells_of(function):
        leaf = None if is_changed else LEAVES.get(type(value))
        yield name, sized(b"k", type_name(type(value)).encode()) if leaf is None else leaf(value)


def cells_of(function: FunctionType) -> Iterator[tuple[str, object, bool]]:
    """The variables around a function, without those of the library and those that are not set.

    Returns:
        For each its name, its value, and whether the function itself changes it: then the value says nothing
        about what the function does.
    """
    changes = _changes_of(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in CLOSURE_NAMES:
            try:
                value = cell.cell_contents
            except ValueError:  # it is not set
                continue
            is_changed = name in changes or (changes.of_contents and isinstance(value, _MUTABLE))
            yield name, value, is_changed


def attributes_of_function(function: FunctionType) -> dict[str, object]:
    """The public attributes of a function, without those that its own code changes, such as a counter."""
    changed = _changes_of(function.__code__).attributes
    held: dict[str, object] = function.__dict__
    return {name: value for name, value in held.items() if name[:1] != "_" and name not in changed}


class _Changes(frozenset[str]):
    """The variables around a function that its code assigns.

    Attributes:
        of_contents: Whether it seems to change the contents of lists, dicts or sets.
        attributes: The names of attributes that it assigns.
    """

    of_contents = False
    attributes: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def _changes_of(code: CodeType) -> _Changes:
    """The variables that the code of a function changes, and the code of the functions in it."""
    instructions = list(dis.get_instructions(code))
    inner = [_changes_of(each) for each in code.co_consts if isinstance(each, CodeType)]
    assigned = [str(each.argval) for each in instructions if each.opname in ("STORE_DEREF", "DELETE_DEREF")]
    changes = _Changes((*assigned, *chain.from_iterable(inner)))
    names = (str(each.argval) for each in instructions if each.opname in ("STORE_ATTR", "DELETE_ATTR"))
    changes.attributes = frozenset(chain(names, *(each.attributes for each in inner)))
    changes.of_contents = (
        not _MUTATORS.isdisjoint(code.co_names)
        or any(each.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") for each in instructions)
        or any(each.of_contents for each in inner)
    )
    return changes


@lru_cache(maxsize=4096)
def code_form(code: CodeType) -> bytes:
    """The form of the code of a function, wherever it stands in its file."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    parts = [sized(b"b", code.co_code), *(text_form(" ".join(each)) for each in names)]
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags & _KINDS)
    parts.append(text_form(" ".join(map(str, counts))))
    parts.append(sized(b"b", code.co_exceptiontable))
    parts += [_constant_form(each) for each in code.co_consts]
    return sized(b"O", b"".join(parts))


def _constant_form(value: object) -> bytes:
    if isinstance(value, CodeType):
        return code_form(value)
    if isinstance(value, tuple | frozenset):
        forms = [_constant_form(each) for each in cast("tuple[object, ...]", value)]
        return sized(b"t", b"".join(forms if isinstance(value, tuple) else sorted(forms)))
    leaf = LEAVES.get(type(value))
    return sized(b"k", type_name(type(value)).encode()) if leaf is None else leaf(value)


@lru_cache(maxsize=4096)
def is_made_in_python(kind: type[Any], base: type[Any] = object) -> bool:
    """Whether instances of a class have no other state than attributes, and that of a base.

    Args:
        kind: The class.
        base: The base whose state is known.
    """
    return all(
        each in base.__mro__ or module_of(each) in _WITHOUT_STATE or _is_class_statement(each)
        for each in kind.__mro__
    )


def _is_class_statement(kind: type[Any]) -> TypeGuard[type]:
    """Whether a class adds nothing to the memory of its instances but slots and an instance dictionary."""
    flags, below = kind.__flags__, cast("type[Any]", kind.__base__)
    if not flags & _HEAP or flags & (_DISALLOWS_INSTANTIATION | _IMMUTABLE):
        return False
    if "__new__" in vars(kind) and not isinstance(vars(kind)["__new__"], staticmethod | FunctionType):
        return False
    slots = sum(type(each).__name__ == "member_descriptor" for each in vars(kind).values())
    # It is negative in instances of any length, such as whole numbers; -1 says that it is kept before them.
    has_dictionary = kind.__dictoffset__ not in (0, -1) and below.__dictoffset__ in (0, -1)
    added = has_dictionary + (kind.__weakrefoffset__ > 0 >= below.__weakrefoffset__)
    return kind.__basicsize__ - below.__basicsize__ <= _WORD * (slots + added)


MAX_DEPTH = 100
"""The greatest depth of a value that has a form."""

MAX_NODES = 1_000_000
"""The greatest number of values in a value that has a form, those in plain lists and dicts apart."""

MAX_OBJECTS = 5_000
"""The greatest number of objects of ordinary classes in it: the graphs of frameworks have no end."""

Maker: TypeAlias = Callable[["FormWriter", Any], bytes]


class RowsMaker(ABC):
    """A maker that can also write several values at once."""

    @abstractmethod
    def __call__(self, writer: "FormWriter", value: Any) -> bytes:
        """Return the form of a value."""

    @abstractmethod
    def rows(self, values: list[Any]) -> bytes | None:
        """Return the form of several values; None where each has its own form."""


_NOWHERE = sys.maxsize
_LONGEST = 1024
"""The greatest number of bytes of a form within another one: of a longer one there is the digest."""


_Known: TypeAlias = tuple[object, bytes, tuple[object, ...]]
"""What was written, which keeps its address from others; its form; what has none in it."""


def _digest(form: bytes) -> bytes:
    return hashlib.sha256(form).digest()


class TooLargeError(PicklableError):
    """A value is too large, or too deep, to have a form."""


class FormWriter:
    """Writes the form of one value, each object in it once.

    A form depends on nothing but the value, so that two equal objects have the same one as one object that is
    held twice. Objects that hold each other have digests that are found in rounds: in each one, an object
    counts by its own content and by what those that it holds had counted as in the round before.

    Args:
        maker_of: Returns the function that writes the values of a type.

    Attributes:
        unstable: The objects in it that have no form; their types alone count.
        unknown: The names of classes whose instances may differ in something that is not in the form.
    """

    __slots__ = (
        *("_circle", "_depth", "_known", "_lowest", "_maker_of", "_objects", "_open", "_positions"),
        *("unknown", "unstable"),
    )

    def __init__(self, maker_of: Callable[[type[Any]], Maker]) -> None:
        self._maker_of = maker_of
        self._known: dict[int, _Known] = {}
        self._open: list[object] = []  # what is being written, or holds something that is
        self._positions: dict[int, int] = {}  # of these, by their addresses
        self._lowest = _NOWHERE  # the position of the first of these that the present one refers to
        self._circle: dict[int, bytes] | None = None  # what the objects of a circle count as in a round
        self._depth = 0
        self._objects = 0
        self.unstable: list[object] = []
        self.unknown: dict[str, str] = {}

    def form(self, value: Any) -> bytes:
        """Return the form of a value.

        Raises:
            TooLargeError: It is too large.
        """
        kind = class_of(value)
        leaf = LEAVES.get(kind)
        if leaf is not None:
            return leaf(value)
        key = id(value)
        if self._circle is not None and (form := self._circle.get(key)) is not None:
            return form
        known = self._known.get(key)
        if known is not None:
            _, form, unstable = known
            if unstable:
                self._note_unstable(unstable)
            return form
        position = self._positions.get(key)
        if position is not None:
            self._lowest = min(self._lowest, position)
            return b"^"
        if self._depth >= MAX_DEPTH or len(self._known) > MAX_NODES:
            raise TooLargeError
        self._depth += 1
        try:
            if self._circle is not None:  # made by the maker of another object, so nothing else refers to it
                form = self._maker_of(kind)(self, value)
                return form if len(form) <= _LONGEST else b"*" + _digest(form)
            return self._write(kind, key, value)
        finally:
            self._depth -= 1

    def _write(self, kind: type[Any], key: int, value: object) -> bytes:
        """Write a value for the first time; see Tarjan's algorithm for what refers to each other."""
        outer, self._lowest = self._lowest, _NOWHERE
        position, first = len(self._open), len(self.unstable)
        self._positions[key] = position
        self._open.append(value)
        form = self._maker_of(kind)(self, value)
        lowest, self._lowest = self._lowest, outer
        if lowest < position:  # its form is written with that of what it refers to
            self._lowest = min(outer, lowest)
            return b"^"
        unstable = tuple(self.unstable[first:]) if len(self.unstable) > first else ()
        if lowest == _NOWHERE:
            self._open.pop()
            del self._positions[key]
            form = form if len(form) <= _LONGEST else b"*" + _digest(form)
            self._known[key] = value, form, unstable
            return form
        members = self._open[position:]
        del self._open[position:]
        for each, digest in zip(members, self._rounds(members), strict=True):
            del self._positions[id(each)]
            self._known[id(each)] = each, b"^" + digest, unstable
        return self._known[key][1]

    def _rounds(self, members: list[object]) -> list[bytes]:
        """The digests of objects that hold each other.

        When a further round tells no more of them apart, what each kind of them had counted as, and what it
        is in these terms, says everything of the circle (see test_circles_differ_by_what_is_in_them).
        """
        before, count = [b""] * len(members), 1
        while True:
            self._circle = {id(each): b"^" + digest for each, digest in zip(members, before, strict=True)}
            digests = [_digest(self._maker_of(type(each))(self, each)) for each in members]
            if len(set(digests)) == count:
                break
            before, count = digests, len(set(digests))
        self._circle = None
        circle = b"".join(sorted({known + digest for known, digest in zip(before, digests, strict=True)}))
        return [_digest(digest + circle) for digest in digests]

    def forms(self, values: Iterable[object]) -> bytes:
        """Return the forms of several values, one after the other, and their number."""
        forms = list(map(self.form, values))
        return b"%d:%b" % (len(forms), b"".join(forms))

    def rows_of(self, kind: type[Any], values: list[Any]) -> bytes | None:
        """Return the form of several values of one class at once; None where each has its own form."""
        maker = self._maker_of(kind)
        return maker.rows(values) if isinstance(maker, RowsMaker) else None

    def count_object(self) -> None:
        """Count an object of an ordinary class."""
        self._objects += self._circle is None
        if self._objects > MAX_OBJECTS:
            raise TooLargeError

    def note_unstable(self, value: object) -> None:
        """Note an object of which the type alone counts."""
        self._note_unstable((value,))

    def _note_unstable(self, values: tuple[object, ...]) -> None:
        if self._circle is None:
            self.unstable += values
            if len(self.unstable) > MAX_NODES:
                raise TooLargeError

    def doubt(self, value: object, reason: str) -> None:
        """Note that other objects of the class may have the same form."""
        self.unknown.setdefault(type_name(type(value)), reason)

    def attributes(self, attributes: Mapping[str, object]) -> bytes:
        """Return the form of attributes by name."""
        return b"".join(text_form(name) + self.form(attributes[name]) for name in sorted(attributes))


def unstable_form(writer: FormWriter, value: object) -> bytes:
    """The form of an object about which nothing is known but its type."""
    writer.note_unstable(value)
    writer.doubt(value, "has no state that is known")
    return sized(b"?", type_name(type(value)).encode())
