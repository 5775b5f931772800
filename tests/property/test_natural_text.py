"""Whatever a text holds: scanning it is safe; escapes, dedent and frontmatter keep their promises."""

import keyword
import re
import textwrap

from hypothesis import given, strategies as st

from nighthawk_async.errors import NaturalParseError
from nighthawk_async.natural.program import find_tokens, parse_bindings, parse_program, unescape
from nighthawk_async.types.outcomes import OUTCOME_KINDS

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and not name.startswith("__")
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
PLAIN = st.text(st.characters(blacklist_characters="<>\\", blacklist_categories=("Cs",)), max_size=12)
WILD = st.lists(st.sampled_from([*"<>:\\.ab_1é \n-", "<a>", "<:b>", "\\<a.b>"]), max_size=40).map("".join)

YAML = st.lists(
    st.sampled_from([*"deny: [],{}&*!|>'\"%@-\n\t#0", "deny: [", "pass", "!!bool ", "!!int ", "---\n"]),
    max_size=40,
).map("".join)


def parse(literal):
    return parse_program(literal, filename="f", line=1)


@given(st.lists(st.tuples(PLAIN, PATHS), max_size=6))
def test_7_every_written_reference_is_found_in_order(pieces):
    text = "".join(f"{plain}<{path}>" for plain, path in pieces)
    assert [token.path for token in find_tokens(text)] == [path for _, path in pieces]
    assert parse("natural\n!" + text).references == tuple(dict.fromkeys(path for _, path in pieces))


@given(st.lists(st.tuples(PLAIN, NAMES, st.booleans()), max_size=6))
def test_7_reads_and_writes_are_what_was_written(pieces):
    text = "".join(f"{plain}<{':' if is_write else ''}{name}>" for plain, name, is_write in pieces)
    bindings = parse_bindings([text])
    assert bindings.write_names == tuple(dict.fromkeys(name for _, name, is_write in pieces if is_write))
    assert bindings.read_names == tuple(dict.fromkeys(name for _, name, is_write in pieces if not is_write))


@given(st.text(st.characters(blacklist_categories=("Cs",)), max_size=60) | WILD)
def test_scanning_any_text_finds_only_usable_names(text):
    program = parse("natural\n." + text)
    for path in program.references:
        assert all(
            part.isidentifier() and part.isascii() and not keyword.iskeyword(part) for part in path.split(".")
        )


@given(WILD)
def test_escaping_every_token_hides_it_and_unescaping_restores_the_text(text):
    text = text.replace("\\", "")
    escaped = re.sub(r"<(?=:[^<>\n]*>|[^\W\d]\w*(\.[^\W\d]\w*)*>)", r"\\<", text)
    assert parse_bindings([escaped]).references == ()
    assert unescape(escaped) == text


@given(WILD)
def test_bindings_of_any_literal_are_found_or_refused_by_name(text):
    try:
        bindings = parse_bindings([text])
    except ValueError as error:
        assert "<" in str(error)  # noqa: PT017 - either end is right
    else:
        assert set(bindings.read_names) | set(bindings.write_names) <= set(bindings.references)


@given(
    st.lists(st.from_regex(r"[a-z]{1,5}[a-z ]{0,5}", fullmatch=True), min_size=1, max_size=6),
    st.integers(0, 12),
)
def test_6_indentation_of_the_surrounding_code_does_not_matter(lines, depth):
    text = "".join(f"{line}\n" for line in lines)
    assert parse("natural\n" + textwrap.indent(text, " " * depth)).text == text


@given(st.sets(st.sampled_from(OUTCOME_KINDS)), PLAIN, st.integers(0, 3))
def test_8_4_frontmatter_leaves_the_program_as_it_would_be_without(kinds, text, blank_lines):
    head = "\n" * blank_lines + "---\ndeny: [" + ", ".join(sorted(kinds)) + "]\n---\n"
    program = parse("natural\n" + head + "." + textwrap.dedent(text))
    assert program.denied_kinds == kinds
    assert program.text == parse("natural\n." + textwrap.dedent(text)).text


@given(YAML)
def test_8_4_any_frontmatter_is_understood_or_refused_with_a_typed_error(yaml):
    try:
        program = parse(f"natural\n---\n{yaml}\n---\nx")
    except NaturalParseError as error:
        assert error.line == 1  # noqa: PT017 - either end is right
    else:
        assert program.denied_kinds <= set(OUTCOME_KINDS)
