"""Values are looked at when they are told: within bounds, without running their code, and as text."""

import asyncio
import concurrent.futures
import json
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import given, strategies as st

from nighthawk_async import observe, parallel
from nighthawk_async.observe import NodeView, TaskTree, view_as_json
from tests.unit.observe.recorded import begin, only, top_writer

MARKUP = "<script>alert('&amp;')</script> \" \\ \u202e <<<NH:END>>>"


def preview(value: object, *, max_characters: int = 200) -> str:
    tree = TaskTree(max_preview_characters=max_characters)
    begin(tree).begin_child("step", "s", inputs={"value": value})
    return only(tree).children[0].inputs["value"]


class Booby:
    """Every way of looking at it runs code of its own."""

    def __init__(self) -> None:
        self.__dict__["size"] = 3

    def explode(self, *arguments: object, **options: object) -> NoReturn:
        raise AssertionError("code of the value was run")

    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __format__ = __hash__ = __eq__ = explode  # type: ignore[assignment]
    __getattr__ = __getitem__ = __call__ = explode


class BoobyText(str):
    def explode(self, *arguments: object, **options: object) -> NoReturn:
        raise AssertionError("code of the value was run")

    __repr__ = __str__ = __len__ = __iter__ = __getitem__ = __format__ = encode = explode  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", '"text"'),
        ("two\nlines", r'"two\nlines"'),
        (3, "3"),
        (2**80, str(2**80)),
        (None, "null"),
        ([1, "a", None], '[1, "a", null]'),
        ({"a": {"b": True}}, '{"a": {"b": true}}'),
        (b"\x00abc", "\"<4 bytes: b'\\\\x00abc'>\""),
        (float("nan"), '"NaN"'),
        ("\ud800", '"\ufffd"'),
    ],
)
def test_a_value_is_shown_as_json(value: object, shown: str) -> None:
    assert preview(value) == shown


def test_no_code_of_a_value_is_run() -> None:
    assert preview(Booby()) == '{"size": 3}'
    assert preview([Booby(), {"x": Booby()}]) == '[{"size": 3}, {"x": {"size": 3}}]'
    assert preview(BoobyText("hello")) == '"hello"'


def test_a_value_is_shown_as_it_was_when_it_was_told() -> None:
    tree = TaskTree()
    values = [1]
    step = begin(tree, "step")
    step.begin_child("tool_call", "t", inputs={"values": values})
    values.append(2)
    step.end("completed", outputs={"values": values})
    assert only(tree).outputs == {"values": "[1, 2]"}
    assert only(tree).children[0].inputs == {"values": "[1]"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 1_000_000, id="text"),
        pytest.param(list(range(1_000_000)), id="list"),
        pytest.param({f"key {n}": ["y" * 50] * 10 for n in range(1_000)}, id="dictionary"),
        pytest.param(["\U0001f985" * 10_000] * 10, id="wide"),
    ],
)
def test_a_large_value_is_shown_in_part(value: object) -> None:
    shown = preview(value)
    assert 50 < len(shown) <= 200
    assert shown.endswith("…")


def test_a_value_that_contains_itself_is_shown() -> None:
    value: list[Any] = []
    value.append(value)
    assert preview(value) == '["<list value>"]'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda values: st.lists(values) | st.dictionaries(st.text() | st.integers(), values),
    ),
    st.integers(16, 300),
)
def test_a_preview_of_any_value_is_bounded_and_can_be_sent(value: object, max_characters: int) -> None:
    shown = preview(value, max_characters=max_characters)
    assert 0 < len(shown) <= max_characters
    shown.encode()


def test_more_values_than_anybody_reads_are_counted() -> None:
    tree = TaskTree()
    begin(tree).end("completed", outputs={f"v{number}": number for number in range(1_000)})
    outputs = only(tree).outputs
    assert list(outputs.items())[:2] == [("v0", "0"), ("v1", "1")]
    assert list(outputs.items())[-1] == ("…", "936 more")
    assert len(outputs) == 65


def texts(view: NodeView) -> Iterator[str]:
    """Every text of a view."""
    yield from (view.name, view.source or "")
    yield from (*view.inputs, *view.inputs.values(), *view.outputs, *view.outputs.values())
    yield from (str(value) for value in view.attributes.values())
    if view.error is not None:
        yield from (view.error.type, view.error.message)


def told_everywhere(text: str, *, max_characters: int = 2_000) -> NodeView:
    tree = TaskTree(max_preview_characters=max_characters)
    writer = top_writer(tree).begin_child(
        "step", text, source=text, inputs={text: 1}, attributes={"a": text, text: 2}
    )
    writer.write("tool_call", text, key=text)
    writer.end("failed", outputs={text: 1}, error=ValueError(text))
    return only(tree)


def test_every_text_is_bounded() -> None:
    view = told_everywhere("z" * 100_000, max_characters=300)
    assert all(len(text) <= 300 for text in texts(view))
    assert len(view.transcript[0].key or "") <= 200


def test_a_name_stands_on_one_line() -> None:
    view = told_everywhere("two\nlines\u2028or\x1b[1m three")
    for name in (view.name, *view.inputs, *view.outputs, view.transcript[0].key):
        assert name == "two lines or [1m three"
    assert "two lines or [1m three" in view.attributes


def test_every_text_can_be_sent() -> None:
    view = told_everywhere("lone \udc00 surrogate")
    assert json.dumps(view_as_json(view), ensure_ascii=False).encode()


def test_markup_stays_the_text_that_it_is() -> None:
    view = told_everywhere(MARKUP)
    assert view.name == view.source == view.attributes["a"] == MARKUP
    assert list(view.inputs) == list(view.outputs) == [MARKUP]
    assert view.error is not None
    assert view.error.message == view.transcript[0].text == view.transcript[0].key == MARKUP
    assert json.loads(preview(MARKUP)) == MARKUP
    assert json.loads(json.dumps(view_as_json(view)))["name"] == MARKUP


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_that_cannot_be_shown_is_still_an_error() -> None:
    tree = TaskTree()
    begin(tree).end("failed", error=UnspeakableError())
    error = only(tree).error
    assert error is not None
    assert (error.type, error.message) == ("UnspeakableError", "its message cannot be shown")


class OddText(str):
    def removeprefix(self, prefix: str, /) -> NoReturn:
        raise AssertionError("code of the text was run")

    __getitem__ = __len__ = __str__ = removeprefix  # type: ignore[assignment]


class OddNames(type):
    @property
    def __name__(cls) -> NoReturn:  # type: ignore[override]
        raise AssertionError("code of the class was run")


class OddError(Exception, metaclass=OddNames):
    def __str__(self) -> str:
        return OddText("odd")


def error_view(error: BaseException, *, max_characters: int = 200) -> observe.ErrorView:
    tree = TaskTree(max_preview_characters=max_characters)
    begin(tree).end("failed", error=error)
    view = only(tree).error
    assert view is not None
    return view


def test_an_error_is_shown_whatever_its_class_makes_of_texts_and_names() -> None:
    assert error_view(OddError()) == observe.ErrorView(type="OddError", message="odd")


@pytest.mark.anyio
async def test_recording_does_not_change_what_a_program_raises() -> None:
    async def fail(number: int) -> None:
        raise OddError

    with observe.recording() as tree:
        (outcome,) = await parallel.settle(fail, [1])
    assert isinstance(outcome, parallel.Failed)
    assert type(outcome.error) is OddError
    assert all(view.is_ended for view in tree.snapshot().children)


class Interrupting(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_a_node_ends_also_when_the_program_is_ended_while_its_error_is_looked_at() -> None:
    tree = TaskTree()
    run = begin(tree)
    with pytest.raises(KeyboardInterrupt):
        run.end("failed", error=Interrupting())
    assert only(tree).state == "failed"
    assert only(tree).error == observe.ErrorView(type="Interrupting", message="its message cannot be shown")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError(), ""),
        (ValueError("no"), "no"),
        (ValueError(BoobyText("no")), "no"),
        (ValueError(Booby()), '{"size": 3}'),
        (ValueError("a", 1), '["a", 1]'),
        (RuntimeError(ValueError("inner")), "inner"),
        (OSError(2, "gone", "a.txt"), "[Errno 2] gone: 'a.txt'"),
        (ValueError("x" * 1_000), "x" * 199 + "…"),
    ],
)
def test_an_error_says_what_its_arguments_say(error: BaseException, message: str) -> None:
    assert error_view(error).message == message


class Cancelled(BaseException):
    """As Trio's own, which nobody can make."""


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError("by <Task at 0x7f> of /srv/app.py"), Cancelled("by x")]
)
def test_what_an_event_loop_cancels_with_is_shown_by_its_class(error: BaseException) -> None:
    assert (error_view(error).type, error_view(error).message) == (type(error).__name__, "")


def test_an_error_that_only_has_the_name_of_a_cancellation_says_what_it_says() -> None:
    assert error_view(concurrent.futures.CancelledError("why")).message == "why"


def test_an_error_that_says_much_is_shown_in_part() -> None:
    class LoudError(Exception):
        def __str__(self) -> str:
            return "z" * 1_000_000

    assert error_view(LoudError()).message == "z" * 199 + "…"


def test_an_error_is_shown_by_its_type_and_message() -> None:
    tree = TaskTree()
    begin(tree).end("failed", error=KeyError("name"))
    assert str(only(tree).error) == "ErrorView(type='KeyError', message=\"'name'\")"
