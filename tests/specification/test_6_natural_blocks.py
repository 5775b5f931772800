"""Section 6, end to end: what is a natural block, and where one may stand."""

# ruff: noqa: F841, B021 - natural blocks use variables that ruff cannot see

import functools
from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    ScriptedExecutor,
    break_response,
    continue_response,
    pass_response,
    raise_response,
    return_response,
)

pytestmark = pytest.mark.anyio


async def programs_of(function: Callable[..., Any], *arguments: Any) -> list[str]:
    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        await function(*arguments)
    return [call.natural_program for call in executor.calls]


async def test_6_the_program_is_dedented_and_loses_its_sentinel() -> None:
    @nh.natural_function
    async def indented() -> None:
        """natural
        First line.
            Deeper line.

        Last line.
        """

    assert await programs_of(indented) == ["First line.\n    Deeper line.\n\nLast line.\n"]


async def test_6_parentheses_and_concatenation_do_not_matter() -> None:
    @nh.natural_function
    async def inline() -> None:
        "natural\nOne."
        (
            "natural\n"
            "Two."
        )  # fmt: skip

    assert await programs_of(inline) == ["One.", "Two."]


async def test_6_literals_that_only_look_like_blocks_are_not() -> None:
    @nh.natural_function
    async def looking_like() -> None:
        """Natural
        A docstring.
        """
        " natural\nNo."
        "Natural\nNo."
        "\nnatural\nNo."
        "natural \nNo."
        "natural"
        b"natural\nNo."  # noqa: B018
        kept = "natural\nNo."
        "natural\nYes."

    assert await programs_of(looking_like) == ["Yes."]


async def test_6_an_f_string_is_inline_even_where_a_docstring_would_stand() -> None:
    @nh.natural_function
    async def formatted(number: int) -> None:
        f"""natural
        Number {number + 1} and {{braces}}.
        """

    assert await programs_of(formatted, 4) == ["Number 5 and {braces}.\n"]


async def test_6_a_docstring_is_never_interpolated() -> None:
    @nh.natural_function
    async def literal(number: int) -> None:
        """natural
        Number {number}.
        """

    assert await programs_of(literal, 4) == ["Number {number}.\n"]


async def test_6_a_block_may_stand_in_every_statement() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def entered() -> Any:
        log.append("enter")
        yield
        log.append("leave")

    @contextmanager
    def opened() -> Any:
        log.append("open")
        yield
        log.append("close")

    @nh.natural_function
    async def everywhere(value: object) -> None:
        if value:
            "natural\nif"
        else:
            "natural\nelse"
        for _ in range(1):
            "natural\nfor"
        else:
            "natural\nfor else"
        while True:
            "natural\nwhile"
            break
        try:
            "natural\ntry"
            raise KeyError
        except KeyError:
            "natural\nexcept"
        finally:
            "natural\nfinally"
        with opened():
            "natural\nwith"
        async with entered():
            "natural\nasync with"
        match value:
            case [_]:
                "natural\ncase"
            case _:
                "natural\nother case"

    assert await programs_of(everywhere, [1]) == [
        "if", "for", "for else", "while", "try", "except", "finally", "with", "async with", "case",
    ]  # fmt: skip
    assert log == ["open", "close", "enter", "leave"]


async def test_6_outcomes_steer_the_python_control_flow() -> None:
    @nh.natural_function
    async def steering(items: list[int], seen: list[object]) -> object:
        for item in items:
            try:
                """natural
                Steer by <item>.
                """
            except ValueError as error:
                seen.append(str(error))
                continue
            finally:
                seen.append(item)
            seen.append("after")
        else:
            seen.append("else")
        return "end"

    seen: list[object] = []
    responses = [
        pass_response(),
        continue_response(),
        raise_response("bad", "ValueError"),  # which the clause around the block handles
        raise_response("bad", "KeyError"),
    ]
    async with nh.run(ScriptedExecutor(responses)):
        with pytest.raises(nh.ExecutionError, match="'KeyError' is not allowed"):
            await steering([1, 2, 3, 4], seen)  # nothing names KeyError
    assert seen == [1, "after", 2, "bad", 3, 4]


async def test_6_raise_return_and_break_go_through_finally_and_with() -> None:
    log: list[str] = []

    @contextmanager
    def opened() -> Any:
        try:
            yield
        finally:
            log.append("closed")

    @nh.natural_function
    async def leaving() -> object:
        while True:
            with opened():
                """natural
                Return, break, or raise LookupError.
                """
        return "after the loop"

    async with nh.run(
        ScriptedExecutor([return_response("7"), break_response(), raise_response("gone", "LookupError")])
    ):
        assert await leaving() == 7
        assert await leaving() == "after the loop"
        with pytest.raises(LookupError, match="gone"):
            await leaving()
    assert log == ["closed"] * 3


def test_6_other_decorators_may_stand_above() -> None:
    def twice(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*arguments: int) -> int:
            return function(*arguments) * 2

        return wrapper

    @twice
    @nh.natural_function
    def doubled(number: int = 3) -> int:
        """natural
        Return <number>.
        """

    with nh.run(ScriptedExecutor([return_response("number"), return_response("number + 1")])):
        assert doubled() == 6
        assert doubled(4) == 10


async def test_6_methods_and_class_methods_in_either_order() -> None:
    class Greeter:
        greeting = "Hello"

        @nh.natural_function
        async def greet(self, name: str) -> str:
            """natural
            Return <self.greeting> and <name>.
            """

        @nh.natural_function
        @classmethod
        async def made(cls, name: str) -> str:
            """natural
            Return <name> for <cls>.
            """

        @staticmethod
        @nh.natural_function
        async def plain(name: str) -> str:
            """natural
            Return <name>.
            """

    expressions = ["self.greeting + name", "cls.greeting + name", "name", "name"]
    async with nh.run(ScriptedExecutor([return_response(expression) for expression in expressions])):
        assert await Greeter().greet(" Ann") == "Hello Ann"
        assert await Greeter.made(" Bob") == "Hello Bob"
        assert await Greeter.plain("Eve") == "Eve"
        assert await Greeter().plain("Eve") == "Eve"


async def test_6_a_traceback_shows_the_file_and_line_of_the_block() -> None:
    @nh.natural_function
    async def failing() -> None:
        before = 1
        """natural
        Fail.
        """

    async with nh.run(ScriptedExecutor([raise_response("on purpose")])):
        with pytest.raises(nh.ExecutionError, match="on purpose") as caught:
            await failing()
    frames = [entry for entry in caught.traceback if str(entry.path) == __file__]
    assert frames[-1].frame.code.name == "failing"
    first_line = failing.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert frames[-1].lineno + 1 == first_line + 3
