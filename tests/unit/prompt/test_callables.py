"""Callables in a section: signatures, docstrings, metadata (specification 8.2.2)."""

import abc
import collections.abc
import dataclasses
import decimal
import enum
import functools
import gc
import inspect
import sys
import types
import typing
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, ForwardRef, Literal, NewType, ParamSpec, TypeVar

import annotated_types
import pydantic
import pytest
from typing_extensions import TypeAliasType

from nighthawk_async.prompt.callables import callable_line, describe_callable, find_signature, signature_text
from nighthawk_async.prompt.types import default_text, is_type_alias, is_type_expression, written_type

_T = TypeVar("_T")
_P = ParamSpec("_P")
_UserId = NewType("_UserId", int)


class _Loud:
    """Fails the test when any of its code runs."""

    def _fail(self, *arguments: object) -> Any:
        raise AssertionError("user code ran")

    __repr__ = __str__ = __getattr__ = __eq__ = __hash__ = __bool__ = __len__ = _fail
    __class__ = property(_fail)


class _Color(enum.Enum):
    RED = 1

    def __repr__(self) -> str:
        raise AssertionError("user code ran")


@dataclasses.dataclass
class _Point:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


class _Model(pydantic.BaseModel):
    """A model."""

    x: int
    y: str = "q"


def _line(
    value: Callable[..., object], name: str = "f", *, is_ambiguous: bool = False, as_specified: bool = True
) -> str:
    description = describe_callable(value)
    return callable_line(name, description, is_ambiguous=is_ambiguous, as_specified=as_specified)


def positional(a: int, b: str, /, c: float = 1.5) -> bool: ...


def keyword_only(*, key: "str | None" = None) -> None: ...


def everything(a, /, b=1, *rest: int, c, **more: str): ...


def only_positional(a, /): ...


def generic(
    items: list[dict[str, int]], handler: Callable[[int], str], *more: tuple[int, ...]
) -> type[int]: ...


@pytest.mark.parametrize(
    "function", [positional, everything, only_positional, generic, sorted, dict.get, _Model]
)
def test_8_2_2_signature_is_the_result_of_inspect_signature(function: Callable[..., object]) -> None:
    signature = find_signature(function)
    assert signature is not None
    expected = str(inspect.signature(function)).replace("collections.abc.Callable", "Callable")
    assert signature_text(signature) == expected


def test_8_2_2_string_annotations_stand_for_themselves() -> None:
    assert _line(keyword_only) == "f: (*, key: str | None = None) -> None"


def test_8_2_2_first_docstring_line_is_appended() -> None:
    def documented(base: int) -> int:
        """

        Add the bonus.

        More that is not shown.
        """
        return base

    assert _line(documented) == "f: (base: int) -> int  # Add the bonus."


@pytest.mark.parametrize("docstring", [None, "", "   \n  ", "natural\nCompute <:result>."])
def test_8_2_2_docstring_without_meaning_is_left_out(docstring: str | None) -> None:
    def function() -> None: ...

    function.__doc__ = docstring
    assert _line(function) == "f: () -> None"


def test_8_2_2_async_callables_are_marked() -> None:
    async def fetch(url: str) -> bytes:
        """Fetch it."""
        return b""

    async def plain() -> None: ...

    async def stream() -> AsyncIterator[int]:
        yield 1

    class AsyncCallable:
        async def __call__(self, x: int) -> int:
            return x

    assert _line(fetch) == "f: (url: str) -> bytes  # Fetch it. # async"
    assert _line(plain) == "f: () -> None  # async"
    assert _line(functools.partial(fetch, "u")) == "f: () -> bytes  # Fetch it. # async"
    assert _line(AsyncCallable()) == "f: (x: int) -> int  # async"
    assert _line(stream).endswith("  # async generator")
    assert "async" not in _line(sorted)


def test_8_2_2_callables_that_say_their_calls_are_awaited_are_marked_async() -> None:
    def waits(x: int) -> int:
        """Wait."""
        return x

    def plain(x: int) -> int:
        return x

    class Marked:
        def __call__(self, x: int) -> int:
            return x

    vars(waits)["__nighthawk_async_call__"] = True
    vars(plain)["__nighthawk_async_call__"] = "no"
    marked = Marked()
    vars(marked)["__nighthawk_async_call__"] = True
    assert _line(waits) == "f: (x: int) -> int  # Wait. # async"
    assert _line(functools.partial(waits, 1)) == "f: () -> int  # Wait. # async"
    assert _line(types.MethodType(waits, 1)) == "f: () -> int  # Wait. # async"
    assert _line(marked) == "f: (x: int) -> int  # async"
    assert _line(plain) == "f: (x: int) -> int"
    assert _line(Marked()) == "f: (x: int) -> int"


def test_8_2_2_ambiguous_signatures_name_what_to_use() -> None:
    def work(x: int) -> int:
        """Work."""
        return x

    assert _line(work, "box.work", is_ambiguous=True) == (
        "box.work: (x: int) -> int  # Work. # disambiguation: use box.work"
    )
    assert _line(keyword_only, is_ambiguous=True).endswith("-> None  # disambiguation: use f")


class _RaisingSignature:
    @property
    def __signature__(self) -> inspect.Signature:
        raise RuntimeError("no")

    def __call__(self) -> None: ...


class _LoudCallable(_Loud):
    def __call__(self, x: int) -> int:
        """Count."""
        raise AssertionError("user code ran")


class _MetaWithAttributes(type):
    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError("user code ran")


class _MetaWithEquality(type):
    def __eq__(cls, other: object) -> bool:
        raise AssertionError("user code ran")

    __hash__ = type.__hash__


class _ClassWithSignatureProperty:
    __signature__ = property(_Loud._fail)


class _WrongSignature:
    def __init__(self) -> None:
        self.__signature__ = "not a signature"

    def __call__(self) -> None: ...


def _function_with_wrong_signature() -> None: ...


_function_with_wrong_signature.__signature__ = _Loud()


def _endless() -> None: ...


_endless.__wrapped__ = _endless


@pytest.mark.parametrize(
    "make",
    [
        lambda: _RaisingSignature(),
        lambda: _WrongSignature(),
        lambda: _function_with_wrong_signature,
        lambda: _endless,
        lambda: _MetaWithAttributes("Quiet", (), {}),
        lambda: _ClassWithSignatureProperty,
        lambda: functools.partial(_RaisingSignature()),
        lambda: functools.partial(positional, 1, 2, 3, 4, 5),
        lambda: type("FromC", (), {"__call__": functools.partial(len)})(),
        lambda: types.MethodType(_RaisingSignature(), 1),
    ],
    ids=range(10),
)
def test_8_2_2_unknown_signature_is_said_to_be_unavailable(make: Callable[[], Callable[..., object]]) -> None:
    assert _line(make(), is_ambiguous=True) == "f: <callable; signature-unavailable>"
    assert _line(make(), as_specified=False) == "f: (...)"


def test_8_2_2_no_code_of_a_callable_instance_runs() -> None:
    assert _line(_LoudCallable()) == "f: (x: int) -> int  # Count."


def test_8_2_2_no_code_of_a_metaclass_runs() -> None:
    quiet = _MetaWithEquality("Quiet", (), {})
    assert _line(quiet) == _line(quiet)


def test_8_2_2_no_code_of_defaults_and_annotations_runs() -> None:
    class Metadata:
        def __repr__(self) -> str:
            raise AssertionError("user code ran")

    loud = _Loud()

    def function(a: loud = loud, b: Annotated[int, Metadata()] = 1) -> list[_Loud]: ...

    assert _line(function) == "f: (a: ... = ..., b: int = 1) -> list[_Loud]"


def test_callable_instance_may_bring_its_signature() -> None:
    class Declared:
        def __init__(self) -> None:
            self.__signature__ = inspect.signature(keyword_only)

        def __call__(self) -> None: ...

    class DeclaredByClass(Declared):
        """Declared by the class."""

        __signature__ = inspect.signature(only_positional)

    assert _line(Declared()).startswith("f: (*, key")
    assert _line(DeclaredByClass()) == "f: (a, /)  # Declared by the class."


def test_wrappers_show_what_they_wrap() -> None:
    def decorated(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def wrapper(*arguments: object, **options: object) -> object:
            return function(*arguments, **options)

        return wrapper

    @functools.lru_cache
    def cached(x: int) -> int:
        """Cache."""
        return x

    assert _line(decorated(decorated(keyword_only))) == _line(keyword_only)
    assert _line(cached) == "f: (x: int) -> int  # Cache."
    assert _line(functools.partial(cached, 1)) == "f: () -> int  # Cache."


def test_function_may_bring_its_signature() -> None:
    def function(*arguments: object) -> None: ...

    function.__signature__ = inspect.signature(only_positional)
    assert _line(function) == "f: (a, /)"


def test_bound_methods_lose_their_first_parameter() -> None:
    class Box:
        def method(self, x: int) -> int:
            """Do."""
            return x

        def variadic(*arguments: int) -> None: ...

        @classmethod
        def make(cls, y: int) -> None: ...

    assert _line(Box().method) == "f: (x: int) -> int  # Do."
    assert _line(Box().variadic) == "f: (*arguments: int) -> None"
    assert _line(Box.make) == "f: (y: int) -> None"
    assert _line([].append).startswith("f: (object, /)")


def test_classes_show_how_they_are_made() -> None:
    class Documented:
        """Made by hand.

        More.
        """

        def __init__(self, size: int) -> None: ...

    assert _line(Documented) == "f: (size: int) -> None  # Made by hand."
    assert _line(_Point) == "f: (x: int, y: list[int] = ...) -> None"
    assert _line(_Model) == "f: (*, x: int, y: str = 'q') -> None  # A model."


def test_long_signatures_and_docstrings_are_bounded() -> None:
    parameters = [
        inspect.Parameter(f"parameter_{index}", inspect.Parameter.KEYWORD_ONLY) for index in range(1_000)
    ]

    def function() -> None: ...

    function.__signature__ = inspect.Signature(parameters)
    function.__doc__ = "x" * 1_000_000
    line = _line(function)
    assert line.count("…") == 2
    assert len(line) < 2_300


def test_description_is_remembered_only_as_long_as_the_function_lives() -> None:
    def function() -> None: ...

    assert describe_callable(function) is describe_callable(function)
    reference = weakref.ref(function)
    del function
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (type(None), "None"),
        (Any, "Any"),
        (abc.ABC, "ABC"),
        ("list[Something]", "list[Something]"),
        ("two\nlines", "two lines"),
        (ForwardRef("Later"), "Later"),
        (list[int], "list[int]"),
        (getattr(typing, "List")[int], "list[int]"),  # noqa: B009  (the old spelling, which ruff rewrites)
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[()], "tuple[()]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (int | None, "int | None"),
        (getattr(typing, "Optional")[int], "int | None"),  # noqa: B009
        (getattr(typing, "Union")[int, str], "int | str"),  # noqa: B009
        (Literal["a", 1, None], 'Literal["a", 1, None]'),
        (Literal[_Color.RED], "Literal[_Color.RED]"),
        (Annotated[int, "metadata"], "int"),
        (Callable[[int, str], bool], "Callable[[int, str], bool]"),
        (typing.Callable[..., None], "Callable[..., None]"),
        (collections.abc.Sequence[int], "Sequence[int]"),
        (typing.ClassVar[int], "ClassVar[int]"),
        (typing.ClassVar, "ClassVar"),
        (getattr(typing, "List"), "List"),  # noqa: B009
        (typing.Never, "Never"),
        (list[_T], "list[_T]"),
        (Callable[_P, int], "Callable[_P, int]"),
        (_UserId, "_UserId"),
        (TypeAliasType("Alias", int), "Alias"),
        (decimal.Decimal, "Decimal"),
        (_Loud(), "..."),
        (..., "..."),
        (17, "..."),
    ],
    ids=range(34),
)
def test_annotations_are_rendered_as_a_reader_would_write_them(annotation: object, text: str) -> None:
    assert written_type(annotation) == text


def test_deeply_nested_annotations_are_cut() -> None:
    annotation: Any = int
    for _ in range(200):
        annotation = list[annotation]
    text = written_type(annotation)
    assert "[...]" in text
    assert text.count("list") < 20


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        ("a", "'a'"),
        (None, "None"),
        (b"x", "b'x'"),
        ([], "[]"),
        ({}, "{}"),
        ([1, "a"], "[1, 'a']"),
        ((1,), "(1)"),
        ({1: 2}, "..."),
        ([[1]], "..."),
        ([1] * 100, "..."),
        (int, "int"),
        (_Color.RED, "_Color.RED"),
        (len, "..."),
        ("x" * 100, f"'{'x' * 60}'…"),
        (2**100, hex(2**100)),
        (2**10_000, "..."),
        (_Loud(), "..."),
    ],
    ids=range(18),
)
def test_defaults_are_rendered_when_that_is_harmless(value: object, text: str) -> None:
    assert default_text(value) == text


def test_type_expressions_and_aliases_are_told_apart_from_other_values() -> None:
    alias = TypeAliasType("Alias", int)
    assert is_type_alias(alias)
    assert not is_type_alias(list[int])
    assert not is_type_alias(None)
    assert is_type_expression(list[int])
    assert is_type_expression(int | None)
    assert not is_type_expression(int)
    assert not is_type_expression(_Loud())


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated at once before 3.14")
def test_names_that_only_type_checkers_know_do_not_cost_the_signature() -> None:
    namespace: dict[str, Any] = {}
    exec("def function(a: Missing, b: int) -> None: ...", namespace)
    assert _line(namespace["function"]) == "f: (a: Missing, b: int) -> None"


Share: typing.TypeAlias = Annotated[float, annotated_types.Interval(ge=0, le=1)]


class _Rates:
    def convert(self, rate: "Share", unit: Annotated[str, pydantic.Field(max_length=3)] = "kg") -> int:
        raise NotImplementedError


def test_constraints_of_parameters_and_results_stand_behind_a_function() -> None:
    def order(
        count: Annotated[int, annotated_types.Ge(1), annotated_types.Le(10)],
        *names: Annotated[str, pydantic.Field(pattern="^a", description="names")],
        shares: "list[Share]",
        other: "Annotated[Nowhere, explode()]" = None,  # type: ignore[name-defined]
    ) -> Annotated[float, pydantic.Field(ge=0)]:
        """Order."""
        raise NotImplementedError

    async def wait(seconds: "Share") -> None:
        """Wait."""

    class Converter:
        def __call__(self, n: Annotated[int, annotated_types.Ge(8)]) -> None:
            raise NotImplementedError

    typed = "order: (count: int, *names: str, shares: list[Share], other: Nowhere = None) -> float"
    cases: list[tuple[Callable[..., object], str]] = [
        (
            order,
            f"{typed}  # Order. # count: >= 1, <= 10; names: names, matches ^a; "
            "shares: float: >= 0, <= 1; result: >= 0",
        ),
        (wait, "order: (seconds: Share) -> None  # Wait. # seconds: >= 0, <= 1 # async"),
        (
            _Rates().convert,
            "order: (rate: Share, unit: str = 'kg') -> int  # rate: >= 0, <= 1; unit: len <= 3",
        ),
        (functools.partial(_Rates().convert, 0.5), "order: (unit: str = 'kg') -> int  # unit: len <= 3"),
        (Converter(), "order: (n: int) -> None  # n: >= 8"),
        (len, "order: (obj, /)  # Return the number of items in a container."),
    ]
    for function, line in cases:
        assert callable_line("order", describe_callable(function)) == line
