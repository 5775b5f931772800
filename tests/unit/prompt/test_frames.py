"""Tables and arrays of pandas, polars and numpy in prompts (specification 8.2.2)."""

import datetime as dt
import json
import sys
import types
from typing import Any

import pytest

from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.sections import render_section
from nighthawk_async.prompt.tokens import TokenCounter

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")


def _preview(value: object, counter: TokenCounter, max_tokens: int = 300, style: Any = "default") -> str:
    text = render_preview(value, max_tokens=max_tokens, style=style, counter=counter)
    assert counter.count(text) <= max_tokens
    return text


def test_pandas_frame_is_a_table_with_its_shape(counter: TokenCounter) -> None:
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "when": [pd.Timestamp("2026-01-02"), pd.NaT],
            "name": pd.Series(["a", None], dtype="string"),
            "kind": pd.Categorical(["u", "v"]),
            "amount": [1.5, None],
        }
    )
    assert _preview(frame, counter) == (
        '[table 2 x 5: "id", "when", "name", "kind", "amount"; '
        '1, "2026-01-02T00:00:00", "a", "u", 1.5; 2, null, null, "v", "NaN"]'
    )
    assert json.loads(_preview(frame[["id", "name"]], counter, style="strict")) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
    ]


def test_index_of_a_frame_is_shown_where_it_says_something(counter: TokenCounter) -> None:
    frame = pd.DataFrame({"id": [7, 8], "n": [1, 2]})
    assert _preview(frame.set_index("id"), counter) == '[table 2 x 2: "id", "n"; 7, 1; 8, 2]'
    named = pd.DataFrame({"n": [1]}, index=["x"])
    assert _preview(named, counter) == '[table 1 x 2: "index", "n"; "x", 1]'


def test_columns_of_equal_names_and_frames_without_rows_are_shown(counter: TokenCounter) -> None:
    assert _preview(pd.DataFrame([[1, 2]], columns=["a", "a"]), counter) == (
        '[table 1 x 2: "a", "a (2)"; 1, 2]'
    )
    assert _preview(pd.DataFrame({"a": []}), counter) == '[table 0 x 1: "a"]'


def test_secrets_in_frames_are_hidden_by_the_names_of_their_columns(counter: TokenCounter) -> None:
    values = {"user": ["ada"], "password": ["hunter2"]}
    for frame in (pd.DataFrame(values), pl.DataFrame(values)):
        assert _preview(frame, counter) == '[table 1 x 2: "user", "password"; "ada", "<hidden>"]'


@pytest.mark.parametrize("style", ["default", "detailed", "strict"])
def test_large_and_wide_frames_say_how_much_there_is(style: Any, counter: TokenCounter) -> None:
    long = pd.DataFrame({"a": range(100_000), "b": range(100_000)})
    wide = pd.DataFrame(np.zeros((3, 500)))
    shown = _preview(long, counter, style=style), _preview(wide, counter, style=style)
    if style == "strict":
        assert json.loads(shown[0])[1] == {"a": 1, "b": 1}
        return
    mark = "… " if style == "default" else "/* "
    assert shown[0].startswith('[table 100,000 x 2: "a", "b"; 0, 0; 1, 1; ')
    assert mark in shown[0]
    assert " of 100,000 rows" in shown[0]
    assert shown[1].startswith("[table 3 x 500: 0, 1, ")
    assert " of 500 columns" in shown[1]
    assert "; 0.0, 0.0, " in shown[1]


def test_polars_frame_is_a_table_with_its_shape(counter: TokenCounter) -> None:
    frame = pl.DataFrame({"a": [1, 2], "d": [dt.date(2026, 1, 1), None], "l": [[1, 2], [3]]})
    assert _preview(frame, counter) == ('[table 2 x 3: "a", "d", "l"; 1, "2026-01-01", [1, 2]; 2, null, [3]]')


def test_series_and_arrays_show_their_shapes_and_types(counter: TokenCounter) -> None:
    for value, text in (
        (pd.Series([1, 2], name="q"), "[series 2 of int64: 1, 2]"),
        (pl.Series("q", [1.5, None]), "[series 2 of Float64: 1.5, null]"),
        (np.arange(3), "[array 3 of int64: 0, 1, 2]"),
        (np.arange(4.0).reshape(2, 2), "[array 2 x 2 of float64: [0.0, 1.0], [2.0, 3.0]]"),
        (np.array([{"a": 1}], dtype=object), '[array 1 of object: {"a": 1}]'),
        (np.array(7), "7"),
        ([np.int64(5), np.float32(1.5), np.bool_(True)], "[5, 1.5, true]"),
    ):
        assert _preview(value, counter) == text
    assert _preview(np.arange(4).reshape(2, 2), counter, style="strict") == "[[0, 1], [2, 3]]"
    large = _preview(np.zeros((10_000, 1_000)), counter)
    assert large.startswith("[array 10,000 x 1,000 of float64: [0.0, 0.0, ")
    assert " of 1,000 items], " in large
    assert large.endswith(" of 10,000 items]")


def test_frames_and_arrays_have_a_line_like_other_containers(counter: TokenCounter) -> None:
    entries = {"a": np.arange(2), "df": pd.DataFrame({"x": [1]}), "n": np.int64(4)}
    section = render_section(
        entries, section="locals", limits=StepContextLimits(), references=(), style="default", counter=counter
    )
    assert section.parts == (
        'a: ndarray = [array 2 of int64: 0, 1]\ndf: DataFrame = [table 1 x 1: "x"; 1]\nn: int64 = 4',
    )


def test_code_of_classes_that_only_look_like_frames_does_not_run(counter: TokenCounter) -> None:
    def fail(*arguments: object) -> Any:
        raise AssertionError("user code ran")

    loud = dict.fromkeys(["__len__", "__iter__", "__getattr__", "__getitem__", "__array__"], fail)
    lookalike = type("DataFrame", (), {**loud, "__module__": "pandas.core.frame"})
    derived = type("Frame", (pd.DataFrame,), {"iloc": property(fail), "__len__": fail})
    assert _preview(lookalike(), counter) == '"<DataFrame>"'
    assert "table" not in _preview([derived({"a": [1]})], counter)


def test_columns_of_extensions_are_not_read(counter: TokenCounter) -> None:
    class Dtype(pd.api.extensions.ExtensionDtype):
        name = "loud"
        type = object

        @classmethod
        def construct_array_type(cls) -> Any:
            return Array

    class Array(pd.api.extensions.ExtensionArray):
        dtype = Dtype()

        def __len__(self) -> int:
            return 1

        def __getitem__(self, item: object) -> Any:
            raise AssertionError("user code ran")

        def copy(self) -> Any:
            return self

    series = pd.Series(Array())
    assert "series" not in _preview([series], counter)
    assert "table" not in _preview([pd.DataFrame({"a": Array()}, copy=False)], counter)


def test_libraries_that_are_not_imported_are_not_missed(
    counter: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(2)
    for library in ("numpy", "pandas", "polars"):
        monkeypatch.delitem(sys.modules, library)
    assert _preview([array, types.SimpleNamespace(a=1)], counter) == '["<ndarray>", SimpleNamespace(a=1)]'


def test_large_arrays_and_frames_show_both_ends_and_facts(counter: TokenCounter) -> None:
    entries = {
        "array": np.arange(50_000.0),
        "frame": pd.DataFrame({"a": range(9_000), "b": [0.5] * 9_000, "c": ["x"] * 9_000}),
        "grid": np.ones((300, 300)),
        "polar": pl.DataFrame({"a": range(9_000), "c": ["x"] * 9_000}),
        "series": pd.Series(range(9_000)),
        "wide": pd.DataFrame({"n": [12345678, *range(9_000)]}),
    }
    section = render_section(
        entries, section="locals", limits=StepContextLimits(), references=(), style="default", counter=counter
    )
    (text,) = section.parts
    assert isinstance(text, str)
    array, frame, grid, polar, series, wide = text.splitlines()
    assert " of 50,000 items, min 0.0, max 49999.0, mean 24999.5 …, " in array
    assert array.endswith("49999.0]")
    assert " of 9,000 rows …; " in frame
    assert frame.endswith('8999, 0.5, "x"; min 0, 0.5, null; max 8999, 0.5, null; mean 4499.5, 0.5, null]')
    assert " of 300 items, min 1.0, max 1.0, mean 1.0 …, [1.0, " in grid
    assert polar.endswith('8999, "x"; min 0, null; max 8999, null; mean 4499.5, null]')
    assert ", min 0, max 8999, mean 4499.5 …, " in series
    assert wide.endswith("8999; min 0; max 12345678; mean 5870.59…]")
    assert counter.count(text) <= 6 * 410


def test_wide_frames_keep_rows_of_both_ends(counter: TokenCounter) -> None:
    frame = pd.DataFrame(np.full((9_000, 40), 1 / 3), columns=[f"column {number}" for number in range(40)])
    section = render_section(
        {"f": frame},
        section="locals",
        limits=StepContextLimits(),
        references=(),
        style="default",
        counter=counter,
    )
    (text,) = section.parts
    assert isinstance(text, str)
    assert text.startswith('f: DataFrame = [table 9,000 x 40: "column 0", "column 1", ')
    assert " of 40 columns; 0.333333…, " in text
    assert " of 9,000 rows …; 0.333333…, " in text
    assert "; min 0.333333…, " in text
    assert counter.count(text) <= 410
