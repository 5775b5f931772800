"""Sentinel, dedent, frontmatter and references: what is known of a block from its text."""

import sys
import textwrap

import pytest

from nighthawk_async.errors import NaturalParseError
from nighthawk_async.natural.program import parse_program, permitted_kinds
from nighthawk_async.types.outcomes import OUTCOME_KINDS


def parse(literal):
    return parse_program(literal, filename="reviews.py", line=7)


def parse_frontmatter(yaml, program="Do it.\n"):
    return parse(f"natural\n---\n{yaml}\n---\n{program}")


def test_6_sentinel_is_removed_and_the_rest_is_dedented():
    assert parse("natural\n    Sum <x>.\n      Twice.\n    ").text == "Sum <x>.\n  Twice.\n"


@pytest.mark.parametrize(
    "literal",
    ["", "natural", "natural ", "natural \nx", " natural\nx", "\nnatural\nx", "Natural\nx", "naturally\nx"],
)
def test_6_sentinel_must_match_exactly(literal):
    with pytest.raises(NaturalParseError, match="exactly 'natural'") as caught:
        parse(literal)
    assert (caught.value.filename, caught.value.line) == ("reviews.py", 7)


def test_6_empty_program_is_a_program():
    assert parse("natural\n").text == ""


def test_6_lines_with_less_indentation_bound_the_dedent():
    assert parse("natural\n    a\n  b\n").text == "  a\nb\n"


def test_8_2_3_references_are_unique_and_in_order_of_first_appearance():
    program = parse("natural\n<b> <a.field> <b> <:c> <a> <a.field.deep>\n")
    assert program.references == ("b", "a.field", "c", "a", "a.field.deep")


def test_8_2_3_escaped_references_are_not_extracted_and_lose_one_backslash():
    program = parse("natural\n\\<a> \\<:b> \\<c.d> <e> \\\\<f>\n")
    assert program.references == ("e",)
    assert program.text == "<a> <:b> <c.d> <e> \\<f>\n"


@pytest.mark.parametrize(
    "text",
    [
        "<br/>",
        "</b>",
        "a < b > c",
        "<class>",
        "<a.class>",
        "<2nd>",
        "<a b>",
        "< a>",
        "<>",
        "<a.>",
        "<a-b>",
        "<:",
    ],
)
def test_7_other_things_in_angle_brackets_are_text(text):
    program = parse(f"natural\n{text}")
    assert program.references == ()
    assert program.text == text


@pytest.mark.parametrize("text", ["<:not a name>", "<:é>", "<é>", "<:class>"])
def test_11_malformed_bindings_in_rendered_text_are_text(text):
    program = parse(f"natural\n{text}")
    assert program.references == ()
    assert program.text == text


def test_backslashes_that_escape_nothing_stay():
    assert parse("natural\n\\d \\< b \\<br/>\n").text == "\\d \\< b \\<br/>\n"


def test_words_are_identifiers_that_start_with_an_upper_case_letter():
    program = parse(
        "natural\nRaise ValueError or NotFound_2, <CustomError>, not keyError or _Private, xY. Or LastError."
    )
    assert program.words == {"Raise", "ValueError", "NotFound_2", "CustomError", "Or", "LastError"}


def test_parts_of_dotted_names_are_no_words():
    program = parse("natural\nRaise requests.ConnectionError, <Errors.Late> or Errors.Early.\n")
    assert program.words == {"Raise"}


def test_8_4_program_without_frontmatter_denies_nothing_and_keeps_its_blank_lines():
    program = parse("natural\n\n  Do it.\n")
    assert program.denied_kinds == frozenset()
    assert program.text == "\nDo it.\n"


def test_8_4_frontmatter_is_stripped_with_the_blank_lines_before_it():
    program = parse("natural\n\n   \n    ---\n    deny: [return, raise]\n    ---\n    Do <it>.\n")
    assert program.denied_kinds == {"return", "raise"}
    assert program.text == "Do <it>.\n"
    assert program.references == ("it",)


@pytest.mark.parametrize("first", ["--- ", "---x", "----", "text\n---"])
def test_8_4_frontmatter_starts_only_with_an_exact_delimiter_on_the_first_line_with_text(first):
    text = f"{first}\ndeny: [pass]\n---\n"
    assert parse(f"natural\n{text}").text == text


def test_8_4_indented_delimiter_is_text():
    program = parse("natural\nDo it.\n    ---\n    deny: [pass]\n    ---\n")
    assert program.denied_kinds == frozenset()
    assert "deny" in program.text


@pytest.mark.parametrize("closing", ["", "--- \n", " ---\n", "----\n"])
def test_8_4_unterminated_frontmatter_is_refused(closing):
    with pytest.raises(NaturalParseError, match="not terminated"):
        parse(f"natural\n---\ndeny: [pass]\n{closing}")


def test_8_4_a_second_pair_of_delimiters_is_text():
    program = parse_frontmatter("deny: []", "---\ndeny: [pass]\n---\n")
    assert program.denied_kinds == frozenset()
    assert program.text == "---\ndeny: [pass]\n---\n"


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("", "must be a YAML mapping"),
        ("- pass", "must be a YAML mapping"),
        ("pass", "must be a YAML mapping"),
        ("{}", "must have the key 'deny'"),
        ("allow: [pass]", "unknown keys: 'allow'"),
        ("deny: [pass]\nextra: 1", "unknown keys: 'extra'"),
        ("1: 2", "unknown keys: 1"),
        ("deny: pass", "sequence of strings"),
        ("deny:", "sequence of strings"),
        ("deny: {pass: 1}", "sequence of strings"),
        ("deny: [pass, 1]", "sequence of strings"),
        ("deny: [pass, [raise]]", "sequence of strings"),
        ("deny: [pass, Raise]", "denies 'Raise'"),
        ("deny: [yield]", "denies 'yield'"),
        ("deny: [pass", "not valid YAML"),
        ("deny: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("deny: [!!bool x]", "not valid YAML"),
        ("deny: [2001-99-99]", "not valid YAML"),
        ("\tdeny: [pass]", "not valid YAML"),
        ("deny: [pass]\n...\n{", "not valid YAML"),
    ],
)
def test_8_4_malformed_frontmatter_is_refused_with_its_place(yaml, message):
    with pytest.raises(NaturalParseError, match=message) as caught:
        parse_frontmatter(yaml)
    assert (caught.value.filename, caught.value.line) == ("reviews.py", 7)
    assert str(caught.value).startswith("reviews.py:7: ")


def test_8_4_empty_deny_list_denies_nothing():
    assert parse_frontmatter("deny: []").denied_kinds == frozenset()


def test_8_4_block_style_sequence_and_repeated_names_are_fine():
    assert parse_frontmatter("deny:\n  - raise\n  - raise  # twice").denied_kinds == {"raise"}


def test_8_4_frontmatter_needs_no_compiled_yaml(monkeypatch):
    import yaml

    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert parse_frontmatter("deny: [break]").denied_kinds == {"break"}


def test_yaml_is_not_imported_for_a_program_without_frontmatter(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert parse("natural\nDo it.").text == "Do it."


def test_8_4_permitted_kinds_keep_their_order():
    program = parse_frontmatter("deny: [raise, pass]")
    assert permitted_kinds(OUTCOME_KINDS, program, filename="f", line=1) == ("return", "break", "continue")


def test_8_4_frontmatter_that_denies_everything_possible_is_refused():
    program = parse_frontmatter("deny: [pass, return, raise]")
    assert permitted_kinds(OUTCOME_KINDS, program, filename="f", line=1) == ("break", "continue")
    with pytest.raises(NaturalParseError, match=r"f:1: .*denies every outcome.*pass, return, raise"):
        permitted_kinds(("pass", "return", "raise"), program, filename="f", line=1)


def test_program_of_an_indented_docstring_is_what_textwrap_makes_of_it():
    literal = """natural
        Map <numbers>:

            - one
        \tend
    """
    assert parse(literal).text == textwrap.dedent(literal.removeprefix("natural\n"))
