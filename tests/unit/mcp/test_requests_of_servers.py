"""What servers ask of this side: questions to people, the model of the run, folders."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response
from tests.unit.mcp.support import PlainServer

pytestmark = pytest.mark.anyio


class Person:
    """Answers questions in order.

    Args:
        answers: The answers; an exception is raised.
    """

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.questions: list[nh.human.Question] = []

    async def ask(self, question: nh.human.Question) -> object:
        self.questions.append(question)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def approve(self, request: object) -> None:
        raise AssertionError(request)


async def answer_of(plain: PlainServer, person: Person | None, tool: str = "ask", **arguments: Any) -> Any:
    """Call a tool that asks a person, and return what its server got."""
    if tool == "ask":
        arguments = {"message": "Who are you?", **arguments}
    async with nh.run(ScriptedModel([]), human=person), nh.mcp.connect(plain.describe()) as tools:
        return json.loads(await getattr(tools, tool)(**arguments))


async def test_a_form_is_filled_in_by_a_person(plain: PlainServer) -> None:
    person = Person({"name": "Ann", "age": 33, "size": "L"})
    answer = await answer_of(plain, person)
    assert answer == {"action": "accept", "content": {"name": "Ann", "age": 33, "size": "L"}}
    assert person.questions[0].prompt == "Server 'plain' asks: Who are you? (null to decline)"


async def test_an_answer_that_does_not_fit_the_form_is_asked_for_again(plain: PlainServer) -> None:
    person = Person({"name": "A"}, {"age": 1}, {"name": "Ann"})
    assert await answer_of(plain, person) == {"action": "accept", "content": {"name": "Ann"}}
    assert "at least 2 characters" in str(person.questions[1].error)


async def test_a_person_may_decline(plain: PlainServer) -> None:
    assert await answer_of(plain, Person(None)) == {"action": "cancel"}
    assert (await answer_of(plain, Person(nh.errors.NoHumanError("asleep"))))["action"] == "decline"


async def test_a_question_is_declined_when_there_is_no_person(plain: PlainServer) -> None:
    assert await answer_of(plain, None) == {"action": "decline"}


async def test_a_handler_that_fails_is_a_failure_for_the_server_and_the_session_lives_on(
    plain: PlainServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        nh.run(ScriptedModel([]), human=Person(ZeroDivisionError("private"))),
        nh.mcp.connect(plain.describe()) as tools,
    ):
        answer = json.loads(await tools.ask(message="x"))
        assert answer == {"code": -32603, "message": "ZeroDivisionError"}
        assert await tools.echo(text="a") == "a"
    assert "private" not in caplog.text


async def test_a_person_is_asked_to_open_an_address(plain: PlainServer) -> None:
    person = Person(True)
    assert (await answer_of(plain, person, "visit"))["action"] == "accept"
    assert "open https://login.example/ in a browser: Sign in." in person.questions[0].prompt
    assert (await answer_of(plain, Person(False), "visit"))["action"] == "decline"


async def test_a_call_that_is_refused_until_an_address_was_opened_is_made_again(plain: PlainServer) -> None:
    async with nh.run(ScriptedModel([]), human=Person(True)), nh.mcp.connect(plain.describe()) as tools:
        assert await tools.sign_in_first() == "welcome"
    assert plain.count("sign-in-first") == 2


async def test_a_call_stays_refused_when_the_address_is_not_opened(plain: PlainServer) -> None:
    async with nh.run(ScriptedModel([]), human=Person(False)), nh.mcp.connect(plain.describe()) as tools:
        with pytest.raises(nh.mcp.ServerCallError, match="sign in first"):
            await tools.sign_in_first()


async def test_the_handler_of_the_caller_is_asked(plain: PlainServer) -> None:
    inner = Person({"name": "inner"})
    async with (
        nh.run(ScriptedModel([]), human=Person({"name": "outer"})),
        nh.mcp.connect(plain.describe()) as tools,
    ):
        with nh.scope(human=inner):
            answer = json.loads(await tools.ask(message="x"))
    assert answer["content"] == {"name": "inner"}


async def test_time_in_which_a_person_thinks_does_not_count(plain: PlainServer) -> None:
    class SlowPerson(Person):
        async def ask(self, question: nh.human.Question) -> object:
            await anyio.sleep(1.0)
            return await super().ask(question)

    async with (
        nh.run(ScriptedModel([]), human=SlowPerson({"name": "Ann"})),
        nh.mcp.connect(plain.describe(call_timeout=0.8)) as tools,
    ):
        assert "Ann" in await tools.ask(message="x")


async def test_a_server_may_not_ask_the_model_unless_it_is_allowed_to(plain: PlainServer) -> None:
    async with nh.run(ScriptedModel([])), nh.mcp.connect(plain.describe()) as tools:
        answer = json.loads(await tools.sample(question="x"))
    assert "not supported" in answer["message"]
    assert "sampling" not in dict(plain.record)["initialized"]


async def test_a_server_asks_the_model_of_the_run_which_is_charged(plain: PlainServer) -> None:
    requests: list[Any] = []

    def reply(request: Any) -> Any:
        requests.append(request)
        return model_response(text="42")

    async with nh.run(ScriptedModel(reply)) as run:
        async with nh.mcp.connect(plain.describe(sampling=True)) as tools:
            answer = json.loads(await tools.sample(question="What is six times seven?"))
        assert run.usage_meter.usage.requests == 1
        assert run.usage_meter.usage.output_tokens == 5
    assert answer["content"] == {"type": "text", "text": "42"}
    assert answer["stopReason"] == "endTurn"
    assert requests[0].system_prompt == "Be brief."
    assert requests[0].messages[0].content == ("What is six times seven?",)
    assert requests[0].settings["max_tokens"] == 50


async def test_a_budget_refuses_what_a_server_asks_of_the_model(plain: PlainServer) -> None:
    budget = nh.budget(turns=0)
    async with (
        nh.run(ScriptedModel([model_response(text="42")]), budget=budget),
        nh.mcp.connect(plain.describe(sampling=True)) as tools,
    ):
        answer = json.loads(await tools.sample(question="x"))
    assert "budget" in answer["message"]


async def test_a_server_is_told_the_folders_that_it_should_work_in(
    plain: PlainServer, tmp_path: Path
) -> None:
    async with nh.mcp.connect(plain.describe(roots=[tmp_path])) as tools:
        assert json.loads(await tools.roots()) == {"roots": [{"uri": tmp_path.as_uri()}]}
    (plain.folder / "record.jsonl").unlink()
    async with nh.mcp.connect(plain.describe()) as tools:
        assert "not supported" in (await tools.roots())
    assert dict(plain.record)["initialized"] == ["elicitation"]
