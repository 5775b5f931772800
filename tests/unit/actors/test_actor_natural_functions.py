"""Natural functions as handlers of actors."""

import pytest

import nighthawk_async as nh
from nighthawk_async.actors import Actor, open_actor
from nighthawk_async.testing import ScriptedExecutor, pass_response, raise_response, return_response

pytestmark = pytest.mark.anyio


class Reviewer(Actor):
    """Reviews texts, and remembers how many."""

    def __init__(self, style: str) -> None:
        self.style = style
        self.count = 0

    @nh.natural_function
    async def review(self, text: str) -> str:
        """natural
        Review <text> in the style of <self>, and set <:verdict>.
        """
        verdict: str
        self.count += 1
        return verdict

    @nh.natural_function
    def summarise(self) -> str:
        """natural
        Return what was reviewed.
        """
        return "nothing"

    async def reviewed(self) -> int:
        return self.count


async def test_natural_methods_are_handlers_whether_async_or_not() -> None:
    executor = ScriptedExecutor(
        [
            pass_response(verdict="good"),
            pass_response(verdict="bad"),
            return_response("f'{self.count} texts'"),
        ]
    )
    async with nh.run(executor), open_actor(lambda: Reviewer("strict")) as reviewer:
        assert await reviewer.ask(Reviewer.review, "first") == "good"
        assert await reviewer.ask(Reviewer.review, text="second") == "bad"
        assert await reviewer.ask(Reviewer.summarise) == "2 texts"
    assert [call.step_locals.get("text") for call in executor.calls] == ["first", "second", None]


async def test_steps_of_an_actor_belong_to_the_run_in_which_it_was_opened() -> None:
    outer = ScriptedExecutor([pass_response(verdict="outer")])
    inner = ScriptedExecutor([])
    async with (
        nh.run(outer, run_id="outer"),
        open_actor(lambda: Reviewer("strict")) as reviewer,
        nh.run(inner, run_id="inner"),
    ):
        assert await reviewer.ask(Reviewer.review, "text") == "outer"
    assert inner.calls == []


async def test_what_a_block_raises_arrives_at_the_asker() -> None:
    class Tolerant(Reviewer):
        answers = (nh.ExecutionError,)

    executor = ScriptedExecutor([raise_response("no verdict")])
    async with nh.run(executor), open_actor(lambda: Tolerant("strict")) as reviewer:
        with pytest.raises(nh.ExecutionError, match="no verdict"):
            await reviewer.ask(Reviewer.review, "text")
        assert await reviewer.ask(Reviewer.reviewed) == 0
