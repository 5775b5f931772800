"""Bindings that an author wrote."""

import pytest

from nighthawk_async.natural.program import parse_bindings, root_name


def test_7_reads_and_writes_are_told_apart():
    bindings = parse_bindings(["Map <numbers> and <other.field> to <:result>, <:total>."])
    assert bindings.read_names == ("numbers",)
    assert bindings.write_names == ("result", "total")
    assert bindings.references == ("numbers", "other.field", "result", "total")


def test_7_a_name_can_be_both_read_and_written():
    bindings = parse_bindings(["<:x> is <x> and <x> again, <:x>"])
    assert (bindings.read_names, bindings.write_names, bindings.references) == (("x",), ("x",), ("x",))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.b", "dotted path"),
        ("a b", "not a Python identifier"),
        (" a", "not a Python identifier"),
        ("2a", "not a Python identifier"),
        ("", "not a Python identifier"),
        ("a-b", "not a Python identifier"),
        ("class", "Python keyword"),
        ("None", "Python keyword"),
        ("__x", "reserved"),
        ("__x__", "reserved"),
        ("é", "must be ASCII"),
        ("ﬁ", "must be ASCII"),
        ("größe", "must be ASCII"),
    ],
)
def test_7_malformed_write_binding_is_refused_by_name(name, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        parse_bindings([f"Set <:{name}>."])
    assert f"<:{name}>" in str(caught.value)


@pytest.mark.parametrize("name", ["é", "größe", "größe.x", "naïve.field", "a.é", "ﬁ", "变量"])
def test_7_read_binding_must_be_ascii(name):
    with pytest.raises(ValueError, match="must be ASCII") as caught:
        parse_bindings([f"Use <{name}>."])
    assert f"<{name}>" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("\\<:not a name>", "\\<é>", "\\<größe.x>", "\\<:größe>", "<a·b", "<:a\nb>", "<x", "<:x", "< x>"),
        *("<class>", "<None>", "<2größe>", "<größe-x>", "<größe groß>", '<a href="größe">', "</größe>"),
    ],
)
def test_7_escaped_and_unfinished_bindings_bind_nothing(text):
    assert parse_bindings([text]).references == ()


def test_7_soft_keywords_are_names():
    assert parse_bindings(["<:match> <type> <case>"]).references == ("match", "type", "case")


def test_11_no_binding_reaches_over_a_boundary_of_literal_parts():
    assert parse_bindings(["<", "name>", "<:", "name>", "\\", "<x>"]).references == ("x",)


def test_root_name_is_what_stands_before_the_first_dot():
    assert (root_name("a"), root_name("a.b.c")) == ("a", "a")
