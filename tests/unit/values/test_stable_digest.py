"""Digests of values: equal ones are the same in every process, different ones differ or are unstable."""

import datetime
import enum
import functools
import importlib.util
import io
import logging
import multiprocessing  # noqa: F401  (which takes the name __mp_main__ when it is imported)
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import anyio
import attrs
import msgspec
import pytest
from pydantic_core import PydanticUndefined

import nighthawk_async as nh
from nighthawk_async.parallel.task_node import UNSTABLE
from nighthawk_async.values import canonical_writing
from nighthawk_async.values.canonical_forms import _functions, forget_identities
from nighthawk_async.values.stable_digest import coarse_digest, digest_of_version_1, identify, stable_digest
from tests.cases import every

SAMPLES = Path(__file__).parent / "digest_samples.py"


def load_samples() -> Any:
    """The samples as a main module: another process has them under that name, too."""
    spec = importlib.util.spec_from_file_location("__mp_main__", SAMPLES)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["__mp_main__"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


samples = load_samples()


@pytest.fixture(autouse=True)
def main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples are the main module, whatever other tests have made of that name."""
    monkeypatch.setitem(sys.modules, "__mp_main__", samples)


@every("name", samples.PAIRS)
def test_different_values_have_different_digests(name: str) -> None:
    first, second = samples.PAIRS[name]
    assert stable_digest(first) != stable_digest(second)
    assert not stable_digest(first).endswith(UNSTABLE)


def test_a_process_with_another_hash_seed_has_the_same_digests() -> None:
    # Also on workers, where the classes of the main module have another module.
    done = subprocess.run(
        [sys.executable, str(SAMPLES)],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == [stable_digest(value) for value in samples.SAMPLES]


def test_the_order_of_a_dict_and_of_a_set_does_not_count() -> None:
    assert stable_digest({"a": 1, "b": [2]}) == stable_digest({"b": [2], "a": 1})
    assert stable_digest({"a", "b", "c"}) == stable_digest({"c", "b", "a"})


def test_an_object_that_a_value_holds_twice_counts_as_two_equal_ones() -> None:
    row = samples.Row("a")
    assert stable_digest([row, row]) == stable_digest([samples.Row("a"), samples.Row("a")])


def shared(levels: int, hold: Callable[[Any], Any], lowest: Any) -> Any:
    """A value in which each level holds the next one twice."""
    for _ in range(levels):
        lowest = hold(lowest)
    return lowest


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda each: [each, each],
    "tuple": lambda each: (each, each),
    "dict": lambda each: {"a": each, "b": each},
    "row": lambda each: with_part(samples.Row(each), each),
    "order": lambda each: with_part(samples.Order(each), each),
}


def with_part(value: Any, part: object) -> Any:
    """Set an attribute."""
    value.part = part
    return value


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("is_cyclic", [False, True], ids=["plain", "cyclic"])
def test_what_is_shared_is_written_once(hold: Callable[[Any], Any], is_cyclic: bool) -> None:
    def make(name: str) -> Any:
        lowest: list[Any] = [name]
        value = shared(40, hold, lowest)  # a form of each level in each place would have no end
        if is_cyclic:
            lowest.append(value)
        return value

    first, again, other = map(identify, (make("a"), make("a"), make("b")))
    assert first.digest == again.digest != other.digest
    assert not first.unknown
    assert not first.digest.endswith(UNSTABLE)


def test_what_is_shared_counts_as_its_copies() -> None:
    def copied(levels: int) -> list[Any]:
        return [copied(levels - 1), copied(levels - 1)] if levels else ["a", ()]

    assert stable_digest(shared(10, HOLDERS["list"], ["a", ()])) == stable_digest(copied(10))
    assert stable_digest(shared(10, HOLDERS["list"], "a")) != stable_digest(shared(11, HOLDERS["list"], "a"))


def test_circles_differ_by_what_is_in_them() -> None:
    def ring(*names: str, of: Callable[[str], Any] = samples.Row) -> Any:
        rows = [of(name) for name in names]
        for row, following in zip(rows, [*rows[1:], rows[0]], strict=True):
            row.next = following
        return rows[0]

    def family(*names: str) -> Any:
        parent = samples.Row("parent")
        parent.children = {samples.Row(name) for name in names}
        for child in parent.children:
            child.parent = parent
        return parent

    rings = [ring(*names) for names in ("ab", "ba", "abc", "acb", "ababc", "aab")]
    values = [*rings, ring("a", "b", of=samples.Order), rings[0].next, family("a", "b"), family("a", "c")]
    different = list(map(stable_digest, values))
    assert different[7] == different[1]  # the ring from its second row
    assert len(set(different)) == len(values) - 1
    assert stable_digest(family("a", "b", "c")) == stable_digest(family("c", "b", "a"))
    assert stable_digest([rings[0], rings[0].next]) == stable_digest([ring("a", "b"), ring("b", "a")])


def test_objects_without_a_form_are_told_apart_wherever_they_are_shared() -> None:
    first, second = object(), object()
    pair = [first, first]
    assert identify((pair, pair)).unstable == (first,) * 4
    assert identify([[first, first, second], second]).unstable == (first, first, second, second)


def test_what_an_attribute_computes_does_not_count() -> None:
    row = samples.Row("a")
    before = stable_digest(row)
    assert row.shout == "A"
    assert stable_digest(row) == before


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), io.StringIO("a"), (each for each in ()), object(), iter([1]), memoryview],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_stable_form_is_unstable(value: Any) -> None:
    identity = identify([value])
    assert identity.digest.endswith(UNSTABLE) != (value is memoryview)
    assert bool(identity.unknown) != (value is memoryview)


def test_an_object_that_holds_a_connection_is_unstable() -> None:
    with socket.socket() as connection:
        row = samples.Row("a")
        row.connection = connection
        assert stable_digest(row).endswith(UNSTABLE)


def test_an_object_with_private_state_alone_is_unstable() -> None:
    class Hidden:
        def __init__(self) -> None:
            self._name = "a"

    assert stable_digest(Hidden()).endswith(UNSTABLE)


def test_private_state_beside_public_state_is_in_doubt() -> None:
    row = samples.Row("a")
    row._id = 7
    identity = identify(row)
    assert not identity.digest.endswith(UNSTABLE)
    assert list(identity.unknown) == ["__main__.Row"]
    row = samples.Row("a")
    row._lock, row._cache, row._parent = threading.Lock(), {}, None
    assert not identify(row).unknown


class State(enum.Enum):
    """An enumeration."""

    OPEN = 1


@pytest.mark.parametrize(
    "hidden",
    [
        False,
        samples.Order("a"),
        samples.Row("a"),
        samples.Name("a"),
        State.OPEN,
        lambda: 1,
        samples.Row,
        deque([1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_private_and_says_something_is_in_doubt(hidden: Any) -> None:
    for value in (samples.Row("a"), samples.Order("a"), samples.Envelope("a"), ValueError("a")):
        value._hidden = hidden
        assert list(identify(value).unknown.values()) == ["has private state that does not count: _hidden"]


@pytest.mark.parametrize(
    "hidden",
    [None, deque(), anyio.Lock(), threading.Event(), logging.getLogger("a")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_private_and_says_nothing_is_in_no_doubt(hidden: Any) -> None:
    for value in (samples.Row("a"), samples.Order("a"), samples.Envelope("a"), ValueError("a")):
        value._hidden = hidden
        assert not identify(value).unknown


def test_a_cause_does_not_count_and_is_in_doubt() -> None:
    error = ValueError("a")
    error.__cause__ = KeyError("b")
    assert stable_digest(error) == stable_digest(ValueError("a"))
    assert identify(error).unknown == {
        "builtins.ValueError": "has private state that does not count: __cause__"
    }


def test_arrays_and_numbers_of_numpy_differ_by_type_shape_and_content() -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        *(numpy.array(each) for each in ([1, 2], [1, 3], [1.0, 2.0], [[1, 2]], ["a", "b"], [True, False])),
        *(numpy.array([1, 2], dtype=each) for each in ("i4", ">i8", "datetime64[s]", "datetime64[ms]")),
        *(numpy.array([samples.Order(each)], dtype=object) for each in ("a", "b")),
        *(numpy.array([(1, 2)], dtype=[(each, int), ("z", int)]) for each in ("x", "y")),
        *(numpy.int64(1), numpy.int32(1), numpy.float64(1), numpy.float64(2), numpy.longdouble(1), 1, 1.0),
        *(numpy.str_("a"), "a", numpy.bool_(True), True, numpy.dtype("i4"), numpy.dtype("i8")),
        *(numpy.datetime64("2026-01-01"), numpy.datetime64("2026-01-02"), numpy.timedelta64(1, "s")),
    ]
    identities = list(map(identify, values))
    assert len({each.digest for each in identities}) == len(values)
    assert not any(each.unknown for each in identities)
    turned = numpy.array([[1, 3], [2, 4]]).T  # equal, and held otherwise
    assert stable_digest(turned) == stable_digest(numpy.array([[1, 2], [3, 4]]))


def test_the_order_of_a_view_of_a_dict_does_not_count() -> None:
    first, second = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert stable_digest(first.keys()) == stable_digest(second.keys())
    assert stable_digest(first.values()) == stable_digest(second.values())


def test_of_what_nobody_names_the_known_parts_count() -> None:
    rows = [samples.Row("a"), samples.Row("a"), samples.Row("b")]
    for row in rows:
        row.lock = threading.Lock()
    assert coarse_digest(rows[0]) == coarse_digest(rows[1])
    assert coarse_digest(rows[0]) != coarse_digest(rows[2])
    assert coarse_digest(threading.Lock()) == coarse_digest(threading.Lock())


def test_no_code_of_the_user_is_called() -> None:
    class Loud:
        def __init__(self) -> None:
            object.__setattr__(self, "name", "a")

        def _refuse(self, *args: object) -> Any:
            raise AssertionError(args)

        __eq__ = __hash__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = _refuse  # type: ignore[assignment]
        __getattr__ = __getattribute__ = __reduce__ = __reduce_ex__ = _refuse  # type: ignore[assignment]
        email = property(_refuse)

    assert not identify({"loud": Loud(), "again": [Loud()]}).unknown


def test_what_is_too_deep_or_too_large_is_unstable(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert stable_digest(deep).endswith(UNSTABLE)
    monkeypatch.setattr(canonical_writing, "MAX_NODES", 10)
    assert stable_digest([[None, ()] for _ in range(20)]).endswith(UNSTABLE)


def test_two_local_classes_of_one_name_differ() -> None:
    def make(number: int) -> Any:
        @dataclass
        class Local:
            name: str

            def value(self) -> int:
                return number

        return Local("a")

    assert stable_digest(make(1)) == stable_digest(make(1))
    assert stable_digest(make(1)) != stable_digest(make(2))


def local_classes(number: int) -> dict[str, Any]:
    """Classes whose statements differ in one thing."""

    class Listed:
        numbers = (number, [number])

    class Inner:
        pass

    Inner.number = number  # type: ignore[attr-defined]

    class Outer:
        inner = Inner

    class Derived(Inner):
        pass

    class Defaults:
        def get(self, value: int = number) -> int:
            return value

    class Cached:
        @functools.cached_property
        def value(self) -> int:
            return number

        @functools.lru_cache  # noqa: B019
        def get(self) -> int:
            return 0

    class Set:
        @property
        def value(self) -> int:
            return 0

        @value.setter
        def value(self, value: int) -> None:
            self.held = value * number

    class Effects:
        @nh.once
        async def send(self) -> int:
            return number

    class Members:
        color = list(samples.Color)[number - 1]
        day = datetime.datetime(2026, 1, number)
        call = functools.partial(int, base=number)

    class Slots:
        __slots__ = ("a" * number,)

    class Letter(msgspec.Struct, tag=str(number)):
        name: str = "a"

    class Sealed(msgspec.Struct):
        size: int = number

    @attrs.define
    class Parcel:
        size: int = number

    class Recursive:
        def copy(self) -> Any:
            return Recursive if number else type(self)

        def __repr__(self) -> str:
            return super().__repr__() + str(number)

    class Kinds(enum.Enum):
        FIRST = number

    class Point(NamedTuple):
        x: int = number

    classes = (Listed, Outer, Derived, Defaults, Cached, Set, Effects, Members, Slots, Letter, Sealed, Parcel)
    return {each.__name__: each for each in (*classes, Recursive, Kinds, Point)}


@pytest.mark.parametrize("name", local_classes(1))
def test_local_classes_differ_by_what_their_statements_say(name: str) -> None:
    first, again, other = (stable_digest(local_classes(number)[name]) for number in (1, 1, 2))
    assert first == again != other


def test_what_a_local_class_counts_later_does_not_count() -> None:
    class Counting:
        made = 0
        names: ClassVar[list[str]] = []

    before = stable_digest(Counting)
    Counting.made += 1
    Counting.names.append("a")
    assert stable_digest(Counting) == before


def test_what_says_that_there_is_no_value_is_known() -> None:
    values = [msgspec.UNSET, msgspec.NODEFAULT, attrs.NOTHING, MISSING, PydanticUndefined, nh.unset]
    identities = list(map(identify, values))
    assert len({each.digest for each in identities}) == len(values)
    assert not any(each.unknown or each.unstable for each in identities)


def test_what_a_function_changes_in_its_closure_does_not_count() -> None:
    calls: list[int] = []
    count = 0

    def call() -> None:
        nonlocal count
        count += 1
        calls.append(count)

    before = stable_digest(call)
    call()
    assert stable_digest(call) == before


def test_a_logger_is_known_by_its_name() -> None:
    assert stable_digest(logging.getLogger("a")) != stable_digest(logging.getLogger("b"))
    assert not identify(logging.getLogger("a")).unknown


def test_a_registered_identity_says_what_an_object_is() -> None:
    class Session:
        def __init__(self, name: str) -> None:
            self._name = name

    class Special(Session):
        pass

    nh.journal.register(Session, identity=lambda session: session._name)
    try:
        assert stable_digest(Special("a")) == stable_digest(Special("a"))
        assert stable_digest(Special("a")) != stable_digest(Special("b"))
        nh.journal.register(Special, identity=lambda session: None)
        assert stable_digest(Special("a")) == stable_digest(Special("b"))
        assert not identify([Special("a")]).unknown
        nh.journal.register(Special, identity=lambda session: 1 / 0)
        assert "ZeroDivisionError" in str(identify(Special("a")).unknown)
    finally:
        _functions.pop(Session), _functions.pop(Special)
        forget_identities()


@pytest.mark.parametrize("options", [{}, {"dump": str}, {"load": str}, {"load": str, "identity": str}])
def test_register_refuses_half_of_a_pair(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="together"):
        nh.journal.register(samples.Row, **options)


@pytest.mark.parametrize(
    ("kind", "digests"),
    [
        (nh.Transcript, ("0ce3ab07b516c3b0", "1f5f8f77be55e397")),
        (nh.StepContext, ("1267a05066b711f0", "0cff49b426add1a5")),
        (nh.runtime.Tool, ("ccd86e5ac0a7bb75", "b8a8d61d6ca8618e")),
        (nh.runtime.UsageMeter, ("dfab774beca25abf", "fc58723353e6fad6")),
        (nh.Policy, ("7d8f5518c1ffeda2", "fd5a6c21da5e8cef")),
        (nh.executors.AgentTask, ("43c4a07addda479e", "568c1f0e4b78157e")),
    ],
)
def test_what_moved_keeps_the_digests_that_journals_have_recorded(
    kind: type, digests: tuple[str, str]
) -> None:
    assert (stable_digest(kind), digest_of_version_1(kind)) == digests
