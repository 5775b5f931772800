"""Mistakes in natural functions that are found without running the module."""

from textwrap import dedent, indent

import pytest

from nighthawk_async.natural.checking import Finding, check_source

HEAD = "import nighthawk_async as nh\n"


def check(text: str) -> list[Finding]:
    return check_source(dedent(text), "page.py")


def found(text: str) -> list[tuple[str, int]]:
    return [(each.code, each.line) for each in check(text)]


def function(body: str, *, head: str = HEAD, signature: str = "async def act(text: str) -> None") -> str:
    """A module with one natural function."""
    return f"{head}\n@nh.natural_function\n{signature}:\n{indent(dedent(body).strip(), '    ')}\n"


def block(text: str, quote: str = "'''") -> str:
    return f"{quote}natural\n{text}\n{quote}"


def test_a_sound_module() -> None:
    assert (
        check(
            """
        import nighthawk_async as nh
        from statistics import mean, stdev

        RATE = 2

        def helper(): return mean([1])

        @nh.natural_function
        async def outer(numbers: list[float]) -> float:
            result: float = nh.unset
            '''natural
            Set <:result> to <mean>, <helper>, <RATE>, <len>, <numbers.first>, <later>, \\\\<escaped>.
            '''
            for each in numbers:
                f'''natural
                Add {each} to <:result>, <each>.
                '''
            @nh.natural_function()
            def inner() -> None:
                '''natural
                Use <result>, <inner>, <stdev>.
                '''
            print(stdev, inner)
            return result

        def later(): ...

        class Desk:
            @nh.natural_function(verify=())
            async def ask(self, item: int) -> None:
                '''natural
                Use <self>, <item>.
                '''
        """
        )
        == []
    )


def test_undefined_names() -> None:
    (finding,) = check(function(block("Use <text> and <txet>.")))
    assert (finding.code, finding.severity, finding.line) == ("NH002", "error", 5)
    assert finding.message.startswith("the block uses <txet>, which nothing defines")
    assert found("from x import *\n" + function(block("Use <anything>."))) == []


def test_variables_of_enclosing_functions_are_defined() -> None:
    text = """
        import nighthawk_async as nh
        def make(standard):
            @nh.natural_function
            async def judge(text):
                '''natural
                Judge <text> by <standard> and <other>.
                '''
            return judge
    """
    assert [each.message.partition(",")[0] for each in check(text)] == ["the block uses <other>"]


def test_imports_that_only_blocks_use_are_noted() -> None:
    (finding,) = check(function(block("Use <mean>."), head=f"from statistics import mean\n{HEAD}"))
    assert (finding.code, finding.severity, finding.line) == ("NH003", "note", 1)
    for head in (
        f"from statistics import mean  # noqa: F401\n{HEAD}",
        f"from statistics import mean\n{HEAD}__all__ = ['mean']\n",
        f"from statistics import mean\n{HEAD}print(mean)\n",
    ):
        assert found(function(block("Use <mean>."), head=head)) == []


@pytest.mark.parametrize(
    ("literal", "problem"),
    [
        ("'''natural \nDo it.'''", "first line is 'natural '"),
        ("'''Natural\nDo it.'''", "first line is 'Natural'"),
        ("''' natural\nDo it.'''", "first line is ' natural'"),
        ("'''\nnatural\nDo it.'''", "line break before"),
        ("'''natural: do it.'''", "text on the line"),
        ("'''natural Do it.\nNow.'''", "text on the line"),
        ("'''natural'''", "nothing follows"),
        ("f'''Natural\nDo {text}.'''", "first line is 'Natural'"),
    ],
)
def test_sentinels_that_are_nearly_right(literal: str, problem: str) -> None:
    (finding,) = check_source(f"{HEAD}@nh.natural_function\nasync def act(text):\n    {literal}\n", "page.py")
    assert finding.code == "NH004"
    assert problem in finding.message


def test_ordinary_texts_are_no_sentinels() -> None:
    assert found("def f():\n    'natural numbers are whole'\n    'naturally'\n") == []


def test_variables_that_nothing_reads() -> None:
    assert found(function("x: int\n" + block("Set <:x>."))) == [("NH005", 6)]
    assert found(function(block("Set <:x>.") + "\nreturn x")) == []
    assert found(function(block("Set <:x>.") + "\n" + block("Use <x>."))) == []
    assert found(function("global x\n" + block("Set <:x>."))) == []
    assert found(function(block("Set <:x>.") + "\nreturn locals()")) == []
    assert found(function(block("Set <:x>.") + "\n" + block("Use <x.name>."))) == []


def test_blocks_of_inner_functions_read_variables() -> None:
    text = """
        import nighthawk_async as nh
        @nh.natural_function
        async def act():
            '''natural
            Set <:standard>.
            '''
            @nh.natural_function
            async def judge(text):
                '''natural
                Judge <text> by <standard>.
                '''
            return judge
    """
    assert check(text) == []


def test_types_that_do_not_exist_at_run_time() -> None:
    head = f"from typing import TYPE_CHECKING\n{HEAD}if TYPE_CHECKING:\n    from shop import Order\n"
    body = "x: Order = nh.unset\n" + block("Set <:x>.") + "\nreturn x"
    (finding,) = check(function(body, head=head))
    assert (finding.code, finding.line) == ("NH006", 8)
    assert "for type checkers alone" in finding.message
    assert found(function(body)) == [("NH006", 5)]
    assert found(function("x: 'list[int]' = nh.unset\n" + block("Set <:x>.") + "\nreturn x")) == []
    assert found(function(block("Make an <Order>."), head=head)) == [("NH002", 8)]


def test_blocks_that_nothing_runs() -> None:
    assert found("def act():\n    '''natural\n    Do it.\n    '''\n") == [("NH007", 2)]
    assert found("@other\ndef act():\n    '''natural\n    Do it.\n    '''\n") == []  # it may be natural


@pytest.mark.parametrize("text", ["Set <:a.b>.", "---\ndeny: [nothing]\n---\nDo it."])
def test_malformed_blocks(text: str) -> None:
    assert found(function(block(text))) == [("NH001", 5)]


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: NH002", "#noqa:F841,NH002"])
def test_comments_hide_findings(comment: str) -> None:
    assert found(function(block("Use <nowhere>.") + f"  {comment}")) == []


def test_comments_about_something_else_do_not() -> None:
    assert found(function(block("Use <nowhere>.") + "  # noqa: E501")) == [("NH002", 5)]


def test_what_is_no_python() -> None:
    (finding,) = check_source("def f(:\n", "page.py")
    assert (finding.code, finding.line, finding.column) == ("NH000", 1, 7)
    assert found("") == []


CLASSES = f"{HEAD}from enum import Enum\nfrom shop import Order, RATE\nclass Category(Enum): A = 1\n"


@pytest.mark.parametrize(
    ("before", "text", "is_found"),
    [
        ("", "Save it as <:answer> as a <Category>.", True),
        ("", "Set <:answer> to the <Category> that fits <text>.", True),
        ("", "Make an <Order> in <:answer>.", True),
        ("answer = None", "Save <:answer> as a <Category>.", True),
        ("answer = nh.unset", "Save <:answer> as a <Category>.", True),
        ("answer: Category", "Save it as <:answer> as a <Category>.", False),
        ("answer: object = nh.unset", "Save it as <:answer> as a <Category>.", False),
        ("answer = Category.A", "Save it as <:answer> as a <Category>.", False),
        ("", "Look at <Category>. Then set <:answer> to <text>.", False),
        ("", "Set <:answer> by <RATE>.", False),
    ],
)
def test_a_variable_without_a_type_beside_a_class_is_noted(before: str, text: str, is_found: bool) -> None:
    findings = check(function(f"{before}\n{block(text)}\nprint(answer, Category, Order, RATE)", head=CLASSES))
    assert [(each.code, each.severity) for each in findings] == [("NH008", "note")] * is_found
    assert all("<:answer> has no type beside <" in each.message for each in findings)
