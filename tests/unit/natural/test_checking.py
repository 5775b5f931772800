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


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Make an Order of <text> and set <:answer>.", True),
        ("Set <:answer> to a new Category.", True),
        ("Look at the Order. Set <:answer>.", False),  # two sentences
        ("Order what <text> asks for, and set <:answer>.", True),
        ("Set <:answer> to an order.", False),
    ],
)
def test_a_class_may_be_a_plain_word(text: str, is_found: bool) -> None:
    findings = check(function(f"{block(text)}\nprint(answer, Category, Order, RATE)", head=CLASSES))
    assert [(each.code, each.severity) for each in findings] == [("NH008", "note")] * is_found


ERRORS = """
import nighthawk_async as nh
from nighthawk_async import ExecutionError as Failed
import errors

class ShopError(Exception): pass
class Closed(ShopError): pass
"""


@pytest.mark.parametrize(
    ("clause", "text", "missing"),
    [
        ("except Closed:", "Order <text>.", ["Closed"]),
        ("except Closed as error:", "Order <text>, or raise Closed.", []),
        ("except Closed:", "Order <text>, or raise <Closed>.", []),
        ("except ShopError:", "Order <text>, or raise Closed.", []),  # it derives from the other
        ("except LookupError:", "Raise KeyError for <text>.", []),
        ("except KeyError:", "Raise LookupError for <text>.", ["KeyError"]),
        ("except (errors.Late, KeyError, Closed):", "Raise Closed for <text>.", ["errors.Late", "KeyError"]),
        ("except errors.Late:", "Raise errors.Late for <text>.", []),
        ("except* Closed:", "Order <text>.", ["Closed"]),
        ("except Exception:", "Order <text>.", []),
        ("except:", "Order <text>.", []),
        ("except (nh.StepLimitError, Failed):", "Order <text>.", []),
        ("except choose():", "Order <text>.", []),
    ],
)
def test_clauses_around_a_block_whose_types_its_text_does_not_name(
    clause: str, text: str, missing: list[str]
) -> None:
    literal = block(text, quote='"' * 3).replace("\n", "\n    ")
    findings = check(function(f"choose = len\ntry:\n    {literal}\n{clause}\n    print(text)", head=ERRORS))
    line = function("choose = len\ntry:", head=ERRORS).count("\n") + 1
    assert [(each.code, each.severity, each.line) for each in findings] == [("NH014", "note", line)] * len(
        missing
    )
    assert [each.message.split(", ")[0] for each in findings] == [
        f"the clause around the block handles {each}" for each in missing
    ]


def test_clauses_elsewhere_are_not_meant() -> None:
    body = f"""
try:
    pass
except KeyError:
    {block("In a handler.").replace(chr(10), chr(10) + "    ")}
else:
    {block("Behind it.").replace(chr(10), chr(10) + "    ")}
"""
    assert check(function(body)) == []


@pytest.mark.parametrize(
    ("signature", "before", "last", "hint"),
    [
        ("async def act(text: str) -> int", "", "return answer", "answer: int"),
        ("async def act(text: str) -> 'list[int]'", "answer = None", "return answer", "answer: list[int]"),
        ("def act(text: str)", "", "return answer", "answer: the type that it has"),
        ("def act(text: str) -> int", "answer: int", "return answer", None),
        ("def act(text: str) -> int", "answer = 0", "return answer", None),
        ("def act(text: str) -> int", "", "return int(answer)", None),
        ("def act(text: str, answer) -> int", "", "return answer", None),
        ("def act(text: str) -> int", "other = 1", "print(answer)\nreturn other", None),
        ("def act(text: str) -> None", "", "return answer", None),
    ],
)
def test_returned_variables_without_a_type(signature: str, before: str, last: str, hint: str | None) -> None:
    findings = check(function(f"{before}\n{block('Set <:answer>.')}\n{last}", signature=signature))
    assert [(each.code, each.severity) for each in findings] == [("NH015", "note")] * (hint is not None)
    for each in findings:
        assert each.message.endswith(
            f"the variable answer of a block is returned and has no type; annotate it: {hint}"
        )
    hidden = f"{last}  # noqa: NH015"
    assert check(function(f"{before}\n{block('Set <:answer>.')}\n{hidden}", signature=signature)) == []


def test_names_that_one_block_reads_and_sets() -> None:
    body = f"""
total = 0
{block("Add <text> to <total>, and set <:total>.")}
{block("Look at <total>.")}
{block("Set <:total> to less.")}
print(total)
"""
    (finding,) = check(function(body))
    assert (finding.code, finding.severity, finding.line) == ("NH016", "note", 6)
    assert "reads <total> and sets <:total>" in finding.message
    hidden = body.replace("set <:total>.\n'''", "set <:total>.\n'''  # noqa: NH016")
    assert check(function(hidden)) == []


def test_f_strings_have_notes_too() -> None:
    literal = "f'''natural\nRaise it for {text}, read <total> and set <:total>.\n'''"
    body = f"total = 0\ntry:\n    {literal}\nexcept KeyError:\n    print(total)"
    assert [code for code, _ in found(function(body))] == ["NH014", "NH016"]
