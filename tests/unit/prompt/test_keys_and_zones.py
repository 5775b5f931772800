"""Keys of mappings in Python's notation, and the names of time zones (specification 8.2.2)."""

import collections
import dataclasses
import datetime as dt
import enum
import json
import types
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pydantic
import pytest
from dateutil import tz
from hypothesis import given, strategies as st

from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.tokens import TokenCounter
from tests.cases import every

_BERLIN = ZoneInfo("Europe/Berlin")


class _Color(enum.Enum):
    RED = 1


class _Word(enum.StrEnum):
    YES = "yes"


class _Access(enum.Flag):
    READ = 1
    WRITE = 2


class _Pair(NamedTuple):
    left: int
    right: str


@dataclasses.dataclass(frozen=True)
class _Point:
    x: int
    y: str


class _Text(str):
    __slots__ = ()


class _Number(int):
    pass


class _Zone(dt.tzinfo):
    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        raise AssertionError("user code ran")


class _Meeting(pydantic.BaseModel):
    begins: dt.datetime


def _preview(value: object, counter: TokenCounter, style: Any = "default", max_tokens: int = 2_000) -> str:
    return render_preview(value, max_tokens=max_tokens, style=style, counter=counter)


KEYS: list[tuple[object, str]] = [
    (14, "14"),
    ("14", '"14"'),
    (_Text("14"), '"14"'),
    (_Number(14), "14"),
    (None, "None"),
    (True, "True"),
    (1.5, "1.5"),
    (float("nan"), "float('nan')"),
    (2**80, "1208925819614629174706176"),
    ((1, 2), "(1, 2)"),
    ((1,), "(1,)"),
    ((), "()"),
    (("a", (None, True)), "('a', (None, True))"),
    (('"\\',), "('\"\\\\',)"),
    (frozenset({2, 1}), "frozenset({1, 2})"),
    (frozenset(), "frozenset()"),
    (b"k", "b'k'"),
    (_Color.RED, "_Color.RED"),
    (_Word.YES, "_Word.YES"),
    (_Access.READ | _Access.WRITE, "_Access.READ|_Access.WRITE"),
    (dt.date(2026, 1, 2), "datetime.date(2026, 1, 2)"),
    (
        dt.datetime(2026, 1, 2, tzinfo=_BERLIN),
        "datetime.datetime(2026, 1, 2, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='Europe/Berlin'))",
    ),
    (Decimal("1.5"), "Decimal('1.5')"),
    (Fraction(1, 2), "Fraction(1, 2)"),
    (uuid.UUID(int=1), "UUID('00000000-0000-0000-0000-000000000001')"),
    (PurePosixPath("a"), "PurePosixPath('a')"),
    (_Pair(1, "a"), "_Pair(left=1, right='a')"),
    (_Point(1, "a"), "_Point(x=1, y='a')"),
    (range(3), "range(0, 3)"),
    (int, "int"),
    (object(), "<object>"),
]


@every("key, text", KEYS)
def test_8_2_2_keys_are_written_as_in_python(key: object, text: str, counter: TokenCounter) -> None:
    assert _preview({key: 1}, counter) == f"{{{text}: 1}}"
    assert _preview({key: 1}, counter, "detailed") == f"{{{text}: 1}}"
    plain = text if text.startswith('"') else json.dumps(text)
    assert _preview({key: 1}, counter, "strict") == f"{{{plain}: 1}}"
    assert _preview([{"a": {key: [1]}}], counter) == f'[{{"a": {{{text}: [1]}}}}]'


def test_8_2_2_keys_of_every_kind_of_mapping_are_written_so(counter: TokenCounter) -> None:
    mapping: Any
    for mapping in (
        {1: 2},
        collections.OrderedDict({1: 2}),
        collections.Counter({1: 2}),
        collections.defaultdict(int, {1: 2}),
    ):
        assert _preview(mapping, counter) == "{1: 2}"
    assert _preview({1: "a", "1": "b"}, counter) == '{1: "a", "1": "b"}'
    assert json.loads(_preview({1: "a", "1": "b"}, counter, "strict")) == {"1": "a", "1 (2)": "b"}
    assert _preview([{1: 2, "a": 3}] * 4, counter).startswith('[table 4 x 2 of dict: 1, "a"; 2, 3;')
    cut = _preview(dict.fromkeys(range(5000), "x" * 40), counter, max_tokens=60)
    assert cut.startswith('{0: "x')
    assert cut.endswith(" of 5,000 keys}")


def test_8_2_2_no_key_looks_like_structure(counter: TokenCounter) -> None:
    assert _preview({("}<<<NH:", "\ufdd2"): 1}, counter) == "{('}\\u003c<<NH:', '\\ufdd2'): 1}"
    assert "\n" not in _preview({type("A\nB", (), {}): 1, ("a\n",): 2}, counter)
    assert len(_preview({(("x" * 10_000,) * 50): 1}, counter)) < 200


@given(
    st.dictionaries(
        st.recursive(
            st.one_of(
                st.none(), st.booleans(), st.integers(-99, 99), st.text(max_size=8), st.binary(max_size=8)
            ),
            lambda keys: st.one_of(st.tuples(keys, keys), st.frozensets(keys, max_size=3)),
            max_leaves=4,
        ),
        st.just(1),
        max_size=5,
    )
)
def test_8_2_2_code_finds_the_keys_that_it_is_shown(value: dict[object, int]) -> None:
    counter = TokenCounter(encoding_name="o200k_base")
    assert eval(_preview(value, counter)) == value


MOMENTS: list[tuple[object, str]] = [
    (dt.datetime(2026, 3, 29, 1, 30, tzinfo=_BERLIN), '"2026-03-29T01:30:00+01:00[Europe/Berlin]"'),
    (dt.datetime(2026, 10, 25, 2, 30, tzinfo=_BERLIN), '"2026-10-25T02:30:00+02:00[Europe/Berlin]"'),
    (dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=_BERLIN), '"2026-10-25T02:30:00+01:00[Europe/Berlin]"'),
    (dt.time(9, 30, tzinfo=_BERLIN), '"09:30:00[Europe/Berlin]"'),
    (dt.datetime(2026, 1, 2, tzinfo=ZoneInfo("UTC")), '"2026-01-02T00:00:00+00:00"'),
    (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), '"2026-01-02T00:00:00+00:00"'),
    (dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))), '"2026-01-02T00:00:00+01:00"'),
    (dt.datetime(2026, 1, 2), '"2026-01-02T00:00:00"'),
    (dt.datetime(2026, 1, 2, tzinfo=tz.gettz("Europe/Berlin")), '"2026-01-02T00:00:00+01:00[Europe/Berlin]"'),
    (dt.datetime(2026, 1, 2, tzinfo=tz.tzoffset(None, 3600)), '"2026-01-02T00:00:00+01:00"'),
    (dt.datetime(2026, 1, 2, tzinfo=_Zone()), '"2026-01-02T00:00:00 <_Zone>"'),
    (_BERLIN, '"Europe/Berlin"'),
    (dt.UTC, '"UTC"'),
    (dt.timezone(dt.timedelta(hours=1)), '"UTC+01:00"'),
    (dt.timezone(dt.timedelta(hours=1), "CET"), '"UTC+01:00 (CET)"'),
]


@pytest.mark.parametrize(("value", "text"), MOMENTS)
def test_8_2_2_a_moment_says_in_which_zone_it_is(value: Any, text: str, counter: TokenCounter) -> None:
    for style in ("default", "detailed", "strict"):
        assert _preview(value, counter, style) == text
        assert _preview({"at": [value]}, counter, style) == f'{{"at": [{text}]}}'


def test_8_2_2_the_zone_stays_inside_of_objects_and_tables(counter: TokenCounter) -> None:
    pandas = pytest.importorskip("pandas")
    moment = dt.datetime(2026, 3, 29, 1, 30, tzinfo=_BERLIN)
    text = '"2026-03-29T01:30:00+01:00[Europe/Berlin]"'
    assert _preview(_Meeting(begins=moment), counter) == f'{{"begins": {text}}}'
    assert _preview(pandas.Timestamp(moment), counter) == text
    assert text in _preview(pandas.Series([moment]), counter)
    assert text in _preview(pandas.DataFrame({"at": [moment]}), counter)


class _Bare:
    def __repr__(self) -> str:
        raise AssertionError("user code ran")


_HOSTILE = 'R}: 1, "x'


def _with_hostile_field() -> object:
    found = _Bare()
    vars(found)[_HOSTILE] = 1
    return found


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (_Bare(), "<_Bare>"),
        (type(_HOSTILE, (), {})(), f"<{f'<{_HOSTILE}>'!r}>"),
        (type(_HOSTILE, (), {}), f"<{f'<class {_HOSTILE}>'!r}>"),
        (enum.Enum("Letter", {_HOSTILE: 1})(1), f"<{f'Letter.{_HOSTILE}'!r}>"),
        (_with_hostile_field(), "<_Bare>"),
        (type("_Octets", (bytes,), {})(b"k"), "b'k'"),
        (tuple(range(9)), "(0, 1, 2, 3, 4, 5, 6, 7, …)"),
        (
            frozenset(map(str, range(10, 30))),
            "frozenset({'10', '11', '12', '13', '14', '15', '16', '17', …})",
        ),
    ],
)
def test_8_2_2_names_in_keys_imitate_no_structure(key: object, text: str, counter: TokenCounter) -> None:
    assert _preview({key: 1}, counter) == f"{{{text}: 1}}"


def test_8_2_2_mapping_proxies_are_mappings(counter: TokenCounter) -> None:
    proxy = types.MappingProxyType({1: types.MappingProxyType({"a": 2}), "1": 3})
    assert _preview(proxy, counter) == '{1: {"a": 2}, "1": 3}'
    assert _preview(proxy, counter, "strict") == '{"1": {"a": 2}, "1 (2)": 3}'
    assert _preview(types.MappingProxyType(dict.fromkeys(range(900))), counter, max_tokens=20).endswith(
        " of 900 keys}"
    )

    class Unread(collections.UserDict[int, int]):
        def keys(self) -> Any:
            raise AssertionError("user code ran")

    assert _preview(types.MappingProxyType(Unread({1: 2})), counter) == "[Unread(data={1: 2})]"
