"""The runner of examples runs what a page shows, as it stands there."""

import linecache
import sys
from pathlib import Path

import pytest

from .examples import parse_page, run_page

FENCE = "```"


def page_of(text: str):
    """A page whose fences are written as `'''`, so that this file stays readable."""
    return parse_page("docs/page.md", text.replace("'''", FENCE))


def run(text: str) -> list[str]:
    """Run a page and return the fixtures it asked for."""
    requested: list[str] = []
    run_page(page_of(text), request_fixture=requested.append)
    return requested


def test_examples_share_one_namespace_in_the_order_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    run("'''python\nword = 'one'\n'''\n\nThen:\n\n'''python\nassert word == 'one'\nword = 'two'\n'''\n")


def test_an_example_that_fails_fails_the_page_at_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("# Title\n\n'''python\nx = 0\n1 / x\n'''\n")
    frame = caught.traceback[-1]
    assert frame.path == Path("docs/page.md[4]") or str(frame.path) == "docs/page.md[4]"
    assert frame.lineno + 1 == 2


def test_the_source_of_an_example_can_be_read_while_it_runs() -> None:
    run(
        "'''python\nimport inspect\n\ndef f() -> int:\n    return 1\n\n"
        "assert inspect.getsource(f) == 'def f() -> int:\\n    return 1\\n'\n'''\n"
    )
    assert not [name for name in linecache.cache if name.startswith("docs/page.md")]


def test_an_example_is_the_main_module() -> None:
    before = sys.modules["__main__"]
    run(
        "'''python\nimport dataclasses\nimport sys\n\n@dataclasses.dataclass\nclass Point:\n    x: 'int'\n\n"
        "assert __name__ == '__main__'\nassert sys.modules['__main__'].Point is Point\n'''\n"
    )
    assert sys.modules["__main__"] is before


def test_a_setup_is_requested_before_the_example_below_it() -> None:
    text = "<!-- setup: one -->\n<!-- setup: two -->\n\nText.\n\n'''sh\nls\n'''\n\n'''python\npass\n'''\n"
    assert run(text) == ["one", "two"]


def test_the_output_of_an_example_is_compared_with_the_page() -> None:
    text = "'''python\nprint('a')\nprint('b')\n'''\n\n<!-- output -->\n'''text\na\n{}\n'''\n"
    run(text.format("b"))
    with pytest.raises(AssertionError, match=r"docs/page.md:8"):
        run(text.format("c"))


def test_an_example_that_is_not_run_is_still_compiled() -> None:
    run("<!-- no-run: needs a key -->\n'''python\n1 / 0\n'''\n")
    with pytest.raises(SyntaxError):
        run("<!-- no-run: needs a key -->\n'''python\n1 /\n'''\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("!!! note\n\n    '''python\n    1 / 0\n    '''\n", id="an example inside an admonition"),
        pytest.param("'''pycon\n>>> 1\n1\n'''\n", id="an interactive session"),
        pytest.param("<!-- no-run: -->\n'''python\npass\n'''\n", id="no reason"),
        pytest.param("<!-- no-run: why -->\n'''sh\nls\n'''\n", id="no-run above something else"),
        pytest.param("<!-- run -->\n'''python\npass\n'''\n", id="run above an example"),
        pytest.param("<!-- file: a.py -->\n'''sh\nls\n'''\n", id="file above something else"),
        pytest.param("<!-- typed: y -->\n'''text\ny\n'''\n", id="typed above no command"),
        pytest.param("<!-- output -->\n'''python\npass\n'''\n", id="output above an example"),
        pytest.param("'''python\npass\n'''\n\n<!-- setup: late -->\n", id="setup below every example"),
    ],
)
def test_an_example_that_would_go_unseen_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"docs/page.md"):
        page_of(text)


def test_an_example_inside_a_list_is_found() -> None:
    page = page_of("1. First:\n\n    '''python\n    x = 1\n    '''\n")
    assert [block.text for block in page.blocks] == ["x = 1\n"]


def test_files_are_written_and_commands_run_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "<!-- file: word.py -->\n'''python\nWORD = 'one'\n'''\n\n"
        "<!-- file: show.py -->\n'''python\nimport word\n\nprint(word.WORD, 'in 1.25s')\n'''\n\n"
        "<!-- run -->\n'''sh\npython show.py\n'''\n\n<!-- output -->\n'''text\n{} in 0.50s\n'''\n"
    )
    run(text.format("one"))
    with pytest.raises(AssertionError, match=r"docs/page.md:20"):
        run(text.format("two"))


def test_a_file_of_markdown_is_written_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("<!-- file: one/two.md -->\n'''markdown\nThree.\n'''\n")
    assert (tmp_path / "one" / "two.md").read_text(encoding="utf-8") == "Three.\n"


def test_a_command_that_fails_fails_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("<!-- file: fail.py -->\n'''python\n1 / 0\n'''\n\n<!-- run -->\n'''sh\npython fail.py\n'''\n")


def test_what_a_person_types_stands_behind_the_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "<!-- file: ask.py -->\n'''python\nprint('Hello ' + input('Name? > ') + input('Mark? > '))\n'''\n\n"
        "<!-- typed: {} -->\n<!-- run -->\n'''sh\npython ask.py\n'''\n\n"
        "<!-- output -->\n'''text\nName? > Ada\nMark? > !\nHello Ada!\n'''\n"
    )
    run(text.format("Ada | !"))
    with pytest.raises(AssertionError, match="asked too little"):
        run(text.format("Ada | ! | more"))
