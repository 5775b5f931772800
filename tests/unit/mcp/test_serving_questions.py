"""Questions of served functions: to the person at the client, else to the handler of the run."""

import dataclasses
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

from .serving_support import (
    CLIENT_WARNINGS,
    ERAS,
    Era,
    Steps,
    answers,
    connected,
    count_run,
    serving,
    text_of,
)

pytestmark = [pytest.mark.anyio, CLIENT_WARNINGS]


class Contact(BaseModel):
    """Somebody to reach."""

    name: str = Field(min_length=2, description="The name")
    age: int | None = None
    way: Literal["mail", "phone"] = "mail"
    topics: list[Literal["tea", "coffee"]] = []


@dataclasses.dataclass
class Kettle:
    """A nested type, which fits no form."""

    owner: Contact
    parts: list[str]


SCHEMAS: dict[str, Any] = {
    "text": str,
    "number": int,
    "flag": bool,
    "choice": Literal["red", "blue"],
    "contact": Contact,
    "kettle": Kettle,
    "list": list[int],
}


async def ask(kind: str) -> str:
    """Ask for something of a type."""
    return repr(await nh.ask_user(f"A {kind}?", schema=SCHEMAS[kind]))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("kind", "content", "answer"),
    [
        ("text", {"answer": "warm"}, "'warm'"),
        ("number", {"answer": 3}, "3"),
        ("flag", {"answer": True}, "True"),
        ("choice", {"answer": "blue"}, "'blue'"),
        (
            "contact",
            {"name": "Ada", "topics": ["tea"]},
            "Contact(name='Ada', age=None, way='mail', topics=['tea'])",
        ),
        ("list", {"answer": "[1, 2]"}, "[1, 2]"),
    ],
    ids=["text", "number", "flag", "choice", "contact", "list"],
)
async def test_an_answer_of_a_form_is_typed(
    era: Era, kind: str, content: dict[str, Any], answer: str
) -> None:
    person = answers(content)
    async with connected(nh.mcp.serve([ask], run=count_run), era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("ask", {"kind": kind})) == answer
    assert [message for message, _ in person.asked] == [f"A {kind}?"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_fields_of_a_form_are_those_of_the_type(era: Era) -> None:
    person = answers({"name": "Ada"}, {"answer": '{"owner": {"name": "Ada"}, "parts": []}'})
    async with connected(nh.mcp.serve([ask], run=count_run), era, elicitation_callback=person) as client:
        await client.call_tool("ask", {"kind": "contact"})
        assert "Kettle(owner=Contact(name='Ada'" in text_of(await client.call_tool("ask", {"kind": "kettle"}))
    (_, flat), (_, nested) = person.asked
    assert flat["required"] == ["name"]
    fields = flat["properties"]
    assert (fields["name"]["minLength"], fields["name"]["description"]) == (2, "The name")
    assert fields["age"]["type"] == "integer"
    assert fields["way"]["enum"] == ["mail", "phone"]
    assert fields["topics"]["items"] == {"type": "string", "enum": ["tea", "coffee"]}
    assert nested["properties"]["answer"]["description"] == "The answer, in JSON."


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_does_not_fit_is_asked_for_again(era: Era) -> None:
    person = answers({"answer": "many"}, {"answer": "[4]"})
    async with connected(nh.mcp.serve([ask], run=count_run), era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("ask", {"kind": "list"})) == "[4]"
    assert "The last answer does not fit" in person.asked[1][0]


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_may_decline(era: Era) -> None:
    async def ask_or_guess(guess: bool) -> str:
        return await nh.ask_user("What now?", **({"default": "tea"} if guess else {}))

    person = answers(None, None)
    app = nh.mcp.serve([ask_or_guess], run=count_run)
    async with connected(app, era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("ask_or_guess", {"guess": True})) == "tea"
        declined = await client.call_tool("ask_or_guess", {"guess": False})
    assert declined.is_error
    assert text_of(declined) == "NoHumanError: The person at the client declined to answer."


class Handler:
    """The handler of a run."""

    async def ask(self, question: Any) -> object:
        return "from the handler"

    async def approve(self, request: Any) -> None:
        request.approve("handler", digest=request.digest)


def handled_run() -> Any:
    return nh.run(CallbackExecutor(lambda call: pass_response()), human=Handler())


@pytest.mark.parametrize("era", ERAS)
async def test_the_handler_of_the_run_answers_for_clients_without_forms(era: Era) -> None:
    async with connected(nh.mcp.serve([ask], run=handled_run), era) as client:
        assert text_of(await client.call_tool("ask", {"kind": "text"})) == "'from the handler'"
    async with connected(nh.mcp.serve([ask], run=count_run), era) as client:
        assert text_of(await client.call_tool("ask", {"kind": "text"})).startswith("NoHumanError: Nobody is")


@pytest.mark.parametrize("era", ERAS)
async def test_clients_do_not_approve(era: Era) -> None:
    async def sell() -> str:
        await nh.request_approval("sell the kettle", timeout=60)
        return "sold"

    person = answers()
    async with connected(nh.mcp.serve([sell], run=handled_run), era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("sell", {})) == "sold"
    async with connected(nh.mcp.serve([sell], run=count_run), era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("sell", {})).startswith("NobodyToApproveError")
    assert person.asked == []


@pytest.mark.parametrize("era", ERAS)
async def test_questions_at_the_same_time_are_all_asked(era: Era) -> None:
    async def ask_both() -> str:
        return "".join(await nh.parallel.map(nh.ask_user, ["A?", "B?"]))

    asked: list[str] = []

    async def person(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return await answers({"answer": params.message[0]})(context, params)

    async with connected(nh.mcp.serve([ask_both], run=count_run), era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("ask_both", {})) == "AB"
    assert sorted(asked) == ["A?", "B?"]


async def test_a_call_that_waits_for_an_answer_ends_with_the_server() -> None:
    steps = Steps()

    async def ask_and_wait() -> str:
        steps._count("begun")
        try:
            return await nh.ask_user("Go on?")
        except BaseException:
            steps._count("cancelled")
            raise

    app = nh.mcp.serve([ask_and_wait], run=count_run, grace_seconds=0)
    async with (
        serving(app) as url,
        Client(url, elicitation_callback=answers()) as client,
    ):
        asked = await client.session.call_tool("ask_and_wait", {}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        assert (steps.cancelled, app.calls_in_progress) == (0, 1)
    assert (steps.cancelled, app.calls_in_progress) == (1, 0)


async def test_a_state_that_is_unknown_is_an_error_that_says_what_to_do() -> None:
    async with connected(
        nh.mcp.serve([ask, nh.mcp.Served(ask, name="other")], run=count_run, grace_seconds=0),
        elicitation_callback=answers(),
    ) as client:
        call = client.session.call_tool
        asked = await call("ask", {"kind": "text"}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        for name, state in [("ask", "unknown"), ("other", asked.request_state)]:
            result = await call(name, {"kind": "text"}, request_state=state, input_responses={})
            assert isinstance(result, CallToolResult)
            assert result.is_error
            assert text_of(result).endswith("Call the tool again.")
        with anyio.CancelScope(deadline=anyio.current_time() + 60):
            again = await call(
                "ask",
                {"kind": "text"},
                request_state=asked.request_state,
                input_responses={},
                allow_input_required=True,
            )
        assert isinstance(again, InputRequiredResult)
        assert again.input_requests == asked.input_requests
