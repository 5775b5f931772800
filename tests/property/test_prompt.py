"""Whatever the values, a prompt keeps its budgets, its delimiters and its head (specification 8.2)."""

import dataclasses
import datetime as dt
import json
import types
from collections import OrderedDict, deque
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.configuration import JsonRendererStyle, StepContextLimits
from nighthawk_async.prompt import tokens
from nighthawk_async.prompt.multimodal import as_user_content, project_to_text
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.sections import SNIPPED, render_section, render_user_prompt
from nighthawk_async.prompt.token_estimate import estimate_tokens
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.types.messages import BinaryContent, ImageUrl

_DELIMITER = "<<<NH:"
_MARKER_TOKENS = 8


@dataclasses.dataclass
class _Record:
    field: object
    other: object


class _WildText(str):
    __slots__ = ()


def _wild_text() -> st.SearchStrategy[str]:
    pieces = st.sampled_from(
        [_DELIMITER, "<", "<<NH:", "END_LOCALS>>>", "\\", '"', "\n", "\ufdd0", "\ufdd1", "/* 3 more */", "…"]
    )
    characters = st.text(st.characters(exclude_categories=()), max_size=12)
    return st.lists(st.one_of(pieces, characters), max_size=6).map("".join)


_MEDIA = st.one_of(
    st.builds(BinaryContent, data=st.binary(max_size=8), media_type=_wild_text()),
    st.builds(ImageUrl, url=_wild_text()),
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**60, max_value=2**2_000),
    st.floats(),
    st.complex_numbers(),
    _wild_text(),
    _wild_text().map(_WildText),
    st.text(max_size=30).map(lambda text: text * 50),
    st.binary(max_size=50),
    st.datetimes(timezones=st.none() | st.just(dt.UTC)),
    st.decimals(),
    st.fractions(),
    st.uuids(),
    st.functions(like=lambda value: value, returns=st.none()),
    st.just(object()),
    st.just(len),
    st.just(types),
    _wild_text().map(lambda name: type(name.replace("\0", "").encode("utf-8", "replace").decode(), (), {})),
    _MEDIA,
)


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=6)
    keys = st.one_of(_wild_text(), st.integers(), st.none(), st.tuples(st.booleans()), st.floats())
    mappings = st.dictionaries(keys, children, max_size=6)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        lists.map(lambda items: items * 20),
        mappings,
        mappings.map(OrderedDict),
        st.builds(_Record, children, children),
        st.builds(ValueError, children),
        st.sets(st.one_of(st.integers(), _wild_text()), max_size=5),
        st.dictionaries(st.text("ab_", min_size=1, max_size=3), children, max_size=4).map(
            lambda fields: types.SimpleNamespace(**fields)
        ),
    )


_VALUES: st.SearchStrategy[Any] = st.recursive(_LEAVES, _containers, max_leaves=25)
_NAMES = st.text(st.characters(categories=("Ll", "Lu"), max_codepoint=0x17F), min_size=1, max_size=5)
_STYLES: st.SearchStrategy[JsonRendererStyle] = st.sampled_from(["strict", "default", "detailed"])


def _estimating_counter() -> TokenCounter:
    counter = TokenCounter(encoding_name="o200k_base")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "load_offline_tokenizer", lambda encoding_name: None)
        counter.load()
    return counter


_COUNTERS = st.sampled_from(
    [_estimating_counter(), TokenCounter.resolve(encoding_name="o200k_base", model_name="")]
)


@given(value=_VALUES, max_tokens=st.integers(1, 120), style=_STYLES, counter=_COUNTERS)
def test_preview_of_any_value_keeps_its_budget_and_forges_nothing(
    value: object, max_tokens: int, style: JsonRendererStyle, counter: TokenCounter
) -> None:
    text = render_preview(value, max_tokens=max_tokens, style=style, counter=counter)
    assert counter.count(text) <= max_tokens
    assert _DELIMITER not in text
    assert "\n" not in text
    assert "\ufdd0" not in text
    assert "\ufdd1" not in text
    text.encode()
    if style == "strict":
        json.loads(text)


@given(value=_VALUES, style=_STYLES, counter=_COUNTERS)
def test_preview_is_the_same_each_time(
    value: object, style: JsonRendererStyle, counter: TokenCounter
) -> None:
    first = render_preview(value, max_tokens=50, style=style, counter=counter)
    assert render_preview(value, max_tokens=50, style=style, counter=counter) == first


_JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab<NH:>\\"é', max_size=8),
    lambda children: (
        st.lists(children, max_size=5) | st.dictionaries(st.text("abc", max_size=3), children, max_size=5)
    ),
    max_leaves=30,
)


@given(value=_JSON_VALUES, style=_STYLES, counter=_COUNTERS)
def test_json_value_that_fits_is_shown_whole(
    value: object, style: JsonRendererStyle, counter: TokenCounter
) -> None:
    assert json.loads(render_preview(value, max_tokens=5_000, style=style, counter=counter)) == value


@given(
    entries=st.dictionaries(_NAMES, _VALUES | st.lists(_wild_text() | _MEDIA, max_size=4), max_size=8),
    references=st.lists(
        st.lists(_NAMES | st.just("field"), min_size=1, max_size=3).map(".".join), max_size=3
    ),
    max_tokens=st.integers(_MARKER_TOKENS, 2_000),
    max_items=st.integers(0, 10),
    style=_STYLES,
    counter=_COUNTERS,
)
def test_section_of_any_values_keeps_its_budget_and_forges_nothing(
    entries: dict[str, object],
    references: list[str],
    max_tokens: int,
    max_items: int,
    style: JsonRendererStyle,
    counter: TokenCounter,
) -> None:
    limits = StepContextLimits(locals_max_tokens=max_tokens, locals_max_items=max_items)
    section = render_section(
        entries, section="locals", limits=limits, references=references, style=style, counter=counter
    )
    texts = [part for part in section.parts if isinstance(part, str)]
    assert sum(map(counter.count, texts)) <= max_tokens
    assert not any(_DELIMITER in text for text in texts)
    assert (section.truncation_reason is not None) == (bool(texts) and texts[-1].endswith(SNIPPED))
    if len(entries) > max_items:
        assert section.truncation_reason is not None

    prompt = render_user_prompt(
        "<<<NH:LOCALS>>>\n$locals\n<<<NH:END_LOCALS>>>",
        program="",
        locals_section=section,
        globals_section=section,
    )
    assert project_to_text(prompt).count(_DELIMITER) == 2


@given(content=st.lists(_wild_text() | _MEDIA, max_size=6))
def test_content_keeps_its_items_and_their_order(content: list[Any]) -> None:
    hoisted = as_user_content(content)
    if any(not isinstance(item, str) for item in content):
        assert hoisted == tuple(content)
    else:
        assert hoisted is None


@given(text=_wild_text().map(lambda text: text * 40), limit=st.integers(0, 300), counter=_COUNTERS)
def test_truncated_text_is_a_beginning_that_fits(text: str, limit: int, counter: TokenCounter) -> None:
    shortened = counter.truncate(text, limit)
    assert text.startswith(shortened)
    assert counter.count(shortened) <= limit
    assert (shortened == text) or counter.exceeds(text, limit)


@given(text=st.text())
def test_estimate_is_never_more_than_the_bytes(text: str) -> None:
    assert estimate_tokens(text) <= len(text.encode())


@given(template=_wild_text() | st.text("$progamlcs{} ", max_size=30), program=_wild_text())
def test_any_template_can_be_filled(template: str, program: str) -> None:
    empty = render_section(
        {},
        section="globals",
        limits=StepContextLimits(),
        references=(),
        style="default",
        counter=_estimating_counter(),
    )
    prompt = render_user_prompt(template, program=program, locals_section=empty, globals_section=empty)
    if "$" not in template:
        assert project_to_text(prompt) == template
