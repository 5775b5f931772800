"""Specification 11: interpolation, for inline f-strings only."""

import runpy
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response

pytestmark = pytest.mark.anyio

PLACE = "the harbour"


@nh.natural_function
async def docstring(name: str) -> None:
    """natural
    Keep {name} and {{name}} and $name as they are.
    """


@nh.natural_function
async def plain_inline(name: str) -> None:
    count = 1
    """natural
    Keep {name} and {count} as they are.
    """
    assert count == 1


@nh.natural_function
async def interpolated(name: str) -> None:
    times = 2
    f"""natural
    Greet {name.upper():>5} at {PLACE}, {{literally}}, {times + 0} times, {name!r}.
    """


async def programs(*functions: object) -> list[str]:
    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        for function in functions:
            await function("ada")  # type: ignore[operator]
    return [call.natural_program.strip() for call in executor.calls]


async def test_11_2_docstring_blocks_are_always_literal() -> None:
    assert await programs(docstring) == ["Keep {name} and {{name}} and $name as they are."]


async def test_11_2_plain_inline_blocks_are_literal_too() -> None:
    assert await programs(plain_inline) == ["Keep {name} and {count} as they are."]


async def test_11_2_inline_f_strings_follow_python() -> None:
    assert await programs(interpolated) == ["Greet   ADA at the harbour, {literally}, 2 times, 'ada'."]


async def test_11_2_each_execution_renders_anew() -> None:
    @nh.natural_function
    async def counting(name: str) -> None:
        for number in range(3):
            f"""natural
            Number {number} of {name}.
            """

    assert await programs(counting) == [f"Number {number} of ada." for number in range(3)]


async def test_11_2_an_interpolated_value_is_not_scanned_for_bindings_to_commit() -> None:
    @nh.natural_function
    async def quote(name: str) -> str:
        quoted = "<:name>"
        f"""natural
        Read this: {quoted}
        """
        return name

    executor = ScriptedExecutor([pass_response()])
    async with nh.run(executor):
        assert await quote("ada") == "ada"
    assert executor.calls[0].binding_names == ()


async def test_11_2_an_expression_that_raises_raises_before_the_step() -> None:
    @nh.natural_function
    async def divide(name: int) -> None:
        whole = 1
        f"""natural
        A share is {whole / name}.
        """

    executor = ScriptedExecutor([pass_response()])
    async with nh.run(executor):
        with pytest.raises(ZeroDivisionError):
            await divide(0)
    assert executor.calls == []


async def test_11_2_frontmatter_may_be_interpolated() -> None:
    @nh.natural_function
    async def without(kind: str) -> None:
        denied = [kind]
        f"""natural
        ---
        deny: {denied}
        ---
        Do it.
        """

    executor = ScriptedExecutor([pass_response()])
    async with nh.run(executor):
        await without("raise")
        with pytest.raises(nh.NaturalParseError, match="fly"):
            await without("fly")
    assert executor.calls[0].allowed_step_kinds == ("pass", "return")


INTERPOLATED_BINDINGS = [
    ("<:{name}>", "the write binding <:{name}> has an interpolated name", "<:total> for example"),
    (
        "<:{name}_{place!r}>",
        "the write binding <:{name}_{place!r}> has",
        r"escape it as \<:{name}_{place!r}>",
    ),
    ("<{name}>", "the read binding <{name}> has an interpolated name", "<total> for example"),
    ("<order.{name}>", "the read binding <order.{name}> has", "write the name of the variable"),
    ("Use <:result>, and <{name:>3}>", "the read binding <{name:>3}> has", r"escape it as \<{name:>3}>"),
]


@pytest.mark.parametrize(("written", "what", "remedy"), INTERPOLATED_BINDINGS)
def test_11_2_a_binding_whose_name_is_interpolated_is_an_error_at_decoration(
    tmp_path: Path, written: str, what: str, remedy: str
) -> None:
    path = tmp_path / "example.py"
    path.write_text(f'def work(name, place, order):\n    f"""natural\n    {written}\n    """\n')
    module = runpy.run_path(str(path))
    with pytest.raises(nh.NaturalParseError) as caught:
        nh.natural_function(module["work"])
    assert what in str(caught.value)
    assert remedy in str(caught.value)
    assert (caught.value.filename, caught.value.line) == (str(path), 2)


@nh.natural_function
async def no_bindings(name: str, limit: int) -> None:
    limit += 0
    rf"""natural
    Escaped \<{name}> and \<:{name}>, compared {limit} < {limit + 1} > {limit}, and <{name}, {limit}>.
    """


async def test_11_2_what_is_escaped_or_no_name_is_text() -> None:
    executor = ScriptedExecutor([pass_response()])
    async with nh.run(executor):
        await no_bindings("Ada", 3)
    assert executor.calls[0].natural_program.strip() == (
        "Escaped <Ada> and <:Ada>, compared 3 < 4 > 3, and <Ada, 3>."
    )
