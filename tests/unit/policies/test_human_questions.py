"""`ask_user`: a typed answer, a default, or a typed error; and nothing is left waiting."""

import math
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, cast

import anyio
import pytest
from anyio import from_thread
from anyio.lowlevel import checkpoint
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.errors import AnswerTimeoutError, NoHumanError
from nighthawk_async.policies.people.errors import InvalidAnswerError
from nighthawk_async.policies.people.questions import ask_user
from nighthawk_async.policies.people.request import HumanHandler, Question, checked_human_handler
from nighthawk_async.testing import CallbackExecutor, ScriptedModel, model_response, pass_response, tool_call

from .human_handlers import Handler, answering, run_asking

pytestmark = pytest.mark.anyio


class Address(BaseModel):
    street: str
    number: int


async def test_the_answer_is_a_text_when_nothing_else_is_asked_for() -> None:
    async with run_asking(answering("blue")):
        assert await ask_user("Which colour?") == "blue"


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        pytest.param(int, "3", 3, id="a text that is a number"),
        pytest.param(bool, "yes", True, id="yes"),
        pytest.param(Literal["a", "b"], "b", "b", id="one of some words"),
        pytest.param(int | None, None, None, id="nothing where that is an answer"),
        pytest.param(Address, {"street": "Elm", "number": 1}, Address(street="Elm", number=1), id="a model"),
        pytest.param(list[int], ["1", 2], [1, 2], id="a list"),
    ],
)
async def test_the_answer_has_the_type_that_is_asked_for(
    schema: object, answer: object, value: object
) -> None:
    async with run_asking(answering(answer)):
        assert await ask_user("?", schema=schema) == value


async def test_an_answer_that_does_not_fit_goes_back_with_what_is_wrong() -> None:
    handler = answering("three", "3")
    async with run_asking(handler):
        assert await ask_user("How many?", schema=int) == 3
    first, second = handler.questions
    assert (first.attempt, first.error) == (1, None)
    assert second.attempt == 2
    assert second.error is not None
    assert "must be int" in second.error
    assert first.id == second.id


async def test_three_answers_that_do_not_fit_are_enough() -> None:
    handler = answering("one", "two", "three", "4")
    async with run_asking(handler):
        with pytest.raises(InvalidAnswerError, match=r"'How many\?' fitted in 3 attempts"):
            await ask_user("How many?", schema=int, default=0)
    assert len(handler.questions) == 3


@pytest.mark.parametrize("default", ["later", None, math.inf], ids=repr)
async def test_a_default_stands_for_the_answer_of_nobody(default: object) -> None:
    async with run_asking(None):
        assert await ask_user("Now?", schema=bool, default=default) is default


async def test_without_a_handler_and_a_default_nobody_is_there() -> None:
    async with run_asking(None):
        with pytest.raises(NoHumanError, match="human="):
            await ask_user("Now?")


async def test_outside_a_run_nobody_is_there() -> None:
    with pytest.raises(NoHumanError):
        await ask_user("Now?")
    assert await ask_user("Now?", default="later") == "later"


async def test_a_handler_that_can_reach_nobody_is_like_none() -> None:
    async def answer(question: Question) -> object:
        raise NoHumanError("the office is closed")

    async with run_asking(Handler(answer=answer)):
        assert await ask_user("Now?", default="later") == "later"
        with pytest.raises(NoHumanError, match="the office is closed"):
            await ask_user("Now?")


async def test_a_handler_may_give_the_default_whatever_the_schema() -> None:
    async def answer(question: Question) -> object:
        assert question.has_default
        return question.default

    async with run_asking(Handler(answer=answer)):
        assert await ask_user("How many?", schema=int, default=None) is None


async def test_what_a_handler_raises_reaches_who_asks_as_it_is() -> None:
    async def answer(question: Question) -> object:
        raise ZeroDivisionError

    async with run_asking(Handler(answer=answer)):
        with pytest.raises(ZeroDivisionError):
            await ask_user("Now?", default="later")


async def test_a_handler_whose_waiting_somebody_else_cancelled_is_no_answer(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        return  # where nobody else can cancel

    async def answer(question: Question) -> object:
        raise anyio.get_cancelled_exc_class()

    async with run_asking(Handler(answer=answer)):
        with pytest.raises(RuntimeError, match="had been cancelled"):
            await ask_user("Now?", default="later")


@pytest.mark.virtual_time
async def test_the_time_is_over_when_it_is_over() -> None:
    handler = Handler(answer=_never)
    async with run_asking(handler):
        begun = anyio.current_time()
        with pytest.raises(AnswerTimeoutError, match="in 90 seconds"):
            await ask_user("Now?", timeout=90)
        assert anyio.current_time() == begun + 90
        assert await ask_user("Now?", timeout=90, default="later") == "later"


@pytest.mark.virtual_time
async def test_every_attempt_counts_towards_the_time() -> None:
    async def answer(question: Question) -> object:
        await anyio.sleep(4)
        return "no number"

    handler = Handler(answer=answer)
    async with run_asking(handler):
        begun = anyio.current_time()
        assert await ask_user("How many?", schema=int, timeout=10, default=-1) == -1
        assert anyio.current_time() == begun + 10
    assert len(handler.questions) == 3


@pytest.mark.virtual_time
async def test_without_a_timeout_it_waits_as_long_as_it_takes() -> None:
    async def answer(question: Question) -> object:
        await anyio.sleep(24 * 60 * 60)
        return "at last"

    async with run_asking(Handler(answer=answer)):
        assert await ask_user("Now?") == "at last"


async def test_a_cancelled_wait_cancels_the_handler() -> None:
    ended: list[str] = []

    async def answer(question: Question) -> object:
        try:
            return await anyio.sleep_forever()
        finally:
            ended.append(question.prompt)

    handler = Handler(answer=answer)
    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(ask_user, "Now?")
        await _until(lambda: bool(handler.questions))
        tasks.cancel_scope.cancel()
    assert ended == ["Now?"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"prompt": ""}, id="an empty question"),
        pytest.param({"prompt": 3}, id="a question that is no text"),
        pytest.param({"timeout": -1}, id="a negative time"),
        pytest.param({"timeout": math.nan}, id="a time that is no number"),
        pytest.param({"timeout": True}, id="true for a time"),
        pytest.param({"schema": re.Pattern[int]}, id="a schema that pydantic has none for"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused_at_once(arguments: dict[str, Any]) -> None:
    handler = answering()
    async with run_asking(handler):
        with pytest.raises(nh.NighthawkError):
            await ask_user(**{"prompt": "Now?", **arguments})
    assert handler.questions == []


async def test_a_question_says_which_step_asks() -> None:
    handler = answering("blue")
    assigned = tool_call("nh_assign", target_path="answer", expression="await ask()")
    model = ScriptedModel([model_response(assigned, tool_call("nh_outcome", kind="pass"))])

    async def ask() -> str:
        return await ask_user("Which colour?")

    @nh.natural_function
    async def paint() -> str:
        answer: str
        """natural
        Set <:answer> to what <ask> says.
        """
        return answer

    async with nh.run(nh.AgentStepExecutor.from_model(model=model)) as run:
        with nh.scope(human=handler):
            assert await paint() == "blue"
    (question,) = handler.questions
    assert question.execution_ref is not None
    assert question.execution_ref.run_id == run.execution_ref.run_id
    assert question.execution_ref.step_id is not None


async def test_a_scope_installs_another_handler_or_none_for_what_is_inside() -> None:
    async with run_asking(answering("outer", "outer again")):
        with nh.scope(human=answering("inner")), nh.scope(system_prompt_suffix_fragments=["x"]):
            assert await ask_user("?") == "inner"
        with nh.scope(human=None), pytest.raises(NoHumanError):
            await ask_user("?")
        assert await ask_user("?") == "outer"
        with pytest.raises(nh.NighthawkError, match="no human handler"):
            nh.scope(human=cast("HumanHandler", object()))


async def test_concurrent_runs_ask_their_own_people() -> None:
    answers: dict[str, str] = {}

    async def one_run(name: str) -> None:
        async with run_asking(answering(name)):
            await checkpoint()
            answers[name] = await ask_user("Who are you?")

    async with anyio.create_task_group() as tasks:
        for name in ("ada", "bob"):
            tasks.start_soon(one_run, name)
    assert answers == {"ada": "ada", "bob": "bob"}


async def test_synchronous_code_asks_from_its_worker_thread() -> None:
    @nh.blocking
    def confirm(prompt: str) -> bool:
        return from_thread.run(partial(ask_user, prompt, schema=bool))

    async with run_asking(answering("y")):
        assert await confirm("Sure?") is True


async def test_a_synchronous_binding_function_gives_the_question_to_the_step_to_await() -> None:
    assigned = tool_call("nh_assign", target_path="answer", expression="colour()")
    model = ScriptedModel([model_response(assigned, tool_call("nh_outcome", kind="pass"))])

    def colour() -> Awaitable[str]:
        return ask_user("Which colour?")

    @nh.natural_function
    async def decide() -> str:
        answer: str
        """natural
        Set <:answer> to what <colour> says.
        """
        return answer

    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(human=answering("blue")):
            assert await decide() == "blue"


def test_a_block_of_a_synchronous_natural_function_asks() -> None:
    assigned = tool_call("nh_assign", target_path="answer", expression="await ask_user('Which colour?')")
    model = ScriptedModel([model_response(assigned, tool_call("nh_outcome", kind="pass"))])

    @nh.natural_function
    def decide() -> str:
        answer: str
        """natural
        Set <:answer> to what <ask_user> says.
        """
        return answer

    with nh.run(nh.AgentStepExecutor.from_model(model=model)), nh.scope(human=answering("blue")):
        assert decide() == "blue"


def test_a_synchronous_script_asks_on_an_event_loop_of_its_own() -> None:
    with nh.run(CallbackExecutor(lambda call: pass_response())), nh.scope(human=answering("blue", "red")):
        assert anyio.run(ask_user, "Which colour?", backend="asyncio") == "blue"
        assert anyio.run(ask_user, "Which colour?", backend="trio") == "red"


@pytest.mark.parametrize("handler", [object(), Handler, "terminal"], ids=["object", "class", "text"])
def test_what_cannot_ask_is_no_handler(handler: object) -> None:
    with pytest.raises(nh.NighthawkError, match="no human handler"):
        checked_human_handler(handler)


def test_a_handler_or_nobody_is_accepted() -> None:
    handler = Handler()
    assert checked_human_handler(handler) is handler
    assert checked_human_handler(None) is None


async def _never(question: Question) -> object:
    return await anyio.sleep_forever()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await checkpoint()
