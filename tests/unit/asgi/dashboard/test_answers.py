"""Questions and requests for approval that are answered at the dashboard."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard, NighthawkMiddleware
from nighthawk_async.human import ask_user, request_approval
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.testing import ScriptedExecutor
from tests.unit.asgi.applications import answer
from tests.unit.asgi.asgi_client import http_scope, open_connection, open_lifespan
from tests.unit.asgi.dashboard.dashboard_client import TOKEN, Reader, act, data_of, fetch, reading

pytestmark = pytest.mark.anyio

TOKENS = {"ada": "the-token-of-ada-lovelace", "bob": "the-token-of-bob-the-builder"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Asking:
    """Something that asks people at a dashboard, and what came of it."""

    def __init__(self, dashboard: Dashboard, tree: TaskTree) -> None:
        self.dashboard = dashboard
        self.tree = tree
        self.result: Any = None
        self.ended = anyio.Event()

    async def question(self) -> NodeView:
        """The node that asks, as soon as it can be answered."""
        async with self.tree.watch(min_interval=0) as views:
            async for view in views:
                for node in view.walk():
                    if node.kind == "question" and "nighthawk.dashboard.answerable" in node.attributes:
                        return node
        raise AssertionError("nothing is asked")

    async def path(self) -> str:
        return f"/api/nodes/{(await self.question()).id}"

    async def answer(self, body: Any, token: str = TOKEN) -> int | None:
        return (await act(self.dashboard, f"{await self.path()}/answer", body, token=token)).status


@asynccontextmanager
async def asking(call: Callable[[], Awaitable[Any]], token: Any = TOKEN) -> AsyncIterator[Asking]:
    """Call something in a run whose people sit at a dashboard; leaving waits until it has ended."""
    tree = TaskTree()
    dashboard = Dashboard(tree, token=token)
    asked = Asking(dashboard, tree)

    async def ask() -> None:
        async with nh.run(ScriptedExecutor(), human=dashboard.human):
            try:
                asked.result = await call()
            except nh.NighthawkError as error:
                asked.result = error
            asked.ended.set()

    with tree.recording():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            yield asked


async def test_a_question_is_answered_at_its_node() -> None:
    async with asking(lambda: ask_user("What colour?")) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))
        assert shown["question"]["prompt"] == "What colour?"
        assert shown["question"]["schema"] == {"type": "string"}
        assert "answer" in shown["controls"]
        path = await asked.path()
        assert await asked.answer({"answer": "blue"}) == 202
        await asked.ended.wait()
        assert asked.result == "blue"
        assert (await act(asked.dashboard, f"{path}/answer", {"answer": "red"})).status == 409
        assert "question" not in data_of(await fetch(asked.dashboard, path))


async def test_an_answer_of_the_wrong_type_is_refused_and_the_question_stays() -> None:
    async with asking(lambda: ask_user("How many?", schema=int)) as asked:
        assert await asked.answer({"answer": "many"}) == 422
        assert await asked.answer({"answer": 3}) == 202
    assert asked.result == 3


async def test_the_choices_of_a_question_are_told() -> None:
    async with asking(lambda: ask_user("Which?", schema=Literal["a", "b"])) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))
        assert shown["question"]["schema"]["enum"] == ["a", "b"]
        assert await asked.answer({"answer": "b"}) == 202
    assert asked.result == "b"


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        (int, "9007199254740993", 9007199254740993),
        (int, " 12345678901234567890 ", 12345678901234567890),
        (Decimal, "0.1000000000000000000001", Decimal("0.1000000000000000000001")),
        (list[Decimal], "[0.10000000000000000001, 0.5]", [Decimal("0.10000000000000000001"), Decimal("0.5")]),
        (dict[str, int], '{"a": 9007199254740993}', {"a": 9007199254740993}),
        (float, "0.1", 0.1),
        (bool, "yes", True),
        (str, " 12 ", " 12 "),
        (str | None, "12", "12"),
        (date, "2026-05-01", date(2026, 5, 1)),
    ],
)
async def test_what_is_typed_is_read_by_the_server_with_every_digit(
    schema: Any, typed: str, answer: Any
) -> None:
    async with asking(lambda: ask_user("Well?", schema=schema)) as asked:
        assert await asked.answer({"text": typed}) == 202
    assert asked.result == answer
    assert type(asked.result) is type(answer)


@pytest.mark.parametrize(
    ("schema", "choices", "values"),
    [
        (Literal[9007199254740993, 9007199254740992], ["9007199254740993", "9007199254740992"], None),
        (bool, ["true", "false"], [True, False]),
        (Literal["a", "b"] | None, ["a", "b", "null"], ["a", "b", None]),
        (Colour | None, ["red", "blue", "null"], [Colour.RED, Colour.BLUE, None]),
        (Literal["only"], ["only"], ["only"]),
        (int | None, None, []),
        (str, None, []),
    ],
)
async def test_a_choice_is_named_by_its_place(schema: Any, choices: Any, values: list[Any] | None) -> None:
    for place, value in enumerate([9007199254740993, 9007199254740992] if values is None else values):
        async with asking(lambda: ask_user("Which?", schema=schema)) as asked:
            shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
            assert shown["choices"] == choices
            assert await asked.answer({"choice": len(choices)}) == 422
            assert await asked.answer({"choice": -1}) == 422
            assert await asked.answer({"choice": place}) == 202
        assert asked.result == value
    if choices is None:
        async with asking(lambda: ask_user("Which?", schema=schema, default=7)) as asked:
            shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
            assert shown["choices"] is None
            assert await asked.answer({"choice": 0}) == 422
            assert await asked.answer({"default": True}) == 202


async def test_the_default_of_a_question_can_be_taken_where_it_has_one() -> None:
    default = object()
    async with asking(lambda: ask_user("How many?", schema=int, default=default)) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
        assert (shown["has_default"], shown["type_name"]) == (True, "int")
        assert await asked.answer({"default": True}) == 202
    assert asked.result is default
    async with asking(lambda: ask_user("How many?", schema=int)) as asked:
        assert await asked.answer({"default": True}) == 422
        assert await asked.answer({}) == 400
        assert await asked.answer({"text": "1", "answer": 1}) == 400
        assert await asked.answer({"answer": 1}) == 202


@pytest.mark.parametrize(
    ("default", "text"),
    [
        pytest.param("We send a new one.", "We send a new one.", id="a text"),
        pytest.param("", "", id="an empty text"),
        pytest.param("\u202ea", "\\u202ea", id="a text that turns the reading direction"),
        pytest.param(7, "7", id="a number"),
        pytest.param(None, "None", id="nothing"),
        pytest.param(object(), None, id="an object, whose code is not run"),
    ],
)
async def test_a_default_is_shown_where_it_is_plain_data(default: object, text: str | None) -> None:
    async with asking(lambda: ask_user("Which?", default=default)) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
        assert shown["default"] == text
        assert await asked.answer({"default": True}) == 202


async def test_it_is_told_until_when_an_approval_can_be_given() -> None:
    before = time.time()
    async with asking(lambda: request_approval("refund", timeout=3600)) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
        assert before + 3599 < shown["expires_at"] < time.time() + 3601
        again = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
        assert again == shown
        assert await asked.answer({"answer": "approve", "digest": shown["digest"]}) == 202


async def test_runs_that_were_told_of_nobody_ask_at_the_dashboard_beside_the_application() -> None:
    dashboard, answers = Dashboard(token=TOKEN), list[Any]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async with nh.run(ScriptedExecutor()):
            answers.append(await ask_user("What colour?"))
            with nh.scope(human=None), pytest.raises(nh.errors.NoHumanError):
                await ask_user("What else?")
            async with nh.run(ScriptedExecutor()):
                with pytest.raises(nh.errors.NoHumanError):
                    await ask_user("What else?")
        await answer(send, "done")

    both = dashboard.beside(app)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fetch, both, "/")
        async with reading(both, "/dashboard/api/changes") as reader:
            assert await _answer_first_question(both, reader, "blue") == 202
    assert answers == ["blue"]


@pytest.mark.parametrize("with_lifespan", [False, True])
async def test_an_application_with_a_middleware_asks_at_the_dashboard_beside_it(with_lifespan: bool) -> None:
    dashboard = Dashboard(token=TOKEN)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await answer(send, await ask_user("What colour?"))

    both = dashboard.beside(NighthawkMiddleware(app, model=ScriptedExecutor()))
    lifespan = open_lifespan(both) if with_lifespan else nullcontext()
    async with lifespan, open_connection(both, http_scope("/")) as connection:
        async with reading(both, "/dashboard/api/changes") as reader:
            assert await _answer_first_question(both, reader, "blue") == 202
        await connection.ended.wait()
    assert connection.body == b"blue"


async def test_where_another_tree_records_nobody_sees_a_question() -> None:
    dashboard = Dashboard(TaskTree(), token=TOKEN)
    with TaskTree().recording():
        async with nh.run(ScriptedExecutor(), human=dashboard.human):
            with pytest.raises(nh.errors.NoHumanError, match="another task tree"):
                await ask_user("What colour?")


async def test_an_answer_without_the_token_changes_nothing() -> None:
    async with asking(lambda: ask_user("What colour?")) as asked:
        assert await asked.answer({"answer": "red"}, token="another-wrong-token") == 401
        assert await asked.answer({"answer": "blue"}) == 202
    assert asked.result == "blue"


async def test_an_action_is_approved_by_as_many_different_people_as_it_takes() -> None:
    async def request() -> Any:
        return await request_approval("refund", arguments={"amount": 12}, quorum=2, approvers=["ada", "bob"])

    async with asking(request, token={**TOKENS, "eve": "the-token-of-eve-the-other"}) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
        assert (shown["action"], shown["arguments"], shown["quorum"]) == ("refund", '{\n  "amount": 12\n}', 2)
        yes = {"answer": "approve", "digest": shown["digest"]}
        assert await asked.answer(yes, token="the-token-of-eve-the-other") == 403
        assert await asked.answer({"answer": "approve", "digest": "0"}, token=TOKENS["ada"]) == 409
        assert await asked.answer({"answer": "approve"}, token=TOKENS["ada"]) == 409
        assert await asked.answer({"answer": "maybe"}, token=TOKENS["ada"]) == 400
        assert await asked.answer(yes, token=TOKENS["ada"]) == 202
        assert await asked.answer(yes, token=TOKENS["ada"]) == 409
        assert not asked.ended.is_set()
        assert await asked.answer(yes, token=TOKENS["bob"]) == 202
    assert [vote.approver for vote in asked.result.approvals] == ["ada", "bob"]


async def test_what_is_approved_is_shown_exactly_and_with_every_character_seen() -> None:
    async def request() -> Any:
        return await request_approval("pay \u202eeno", arguments={"cents": 2**64 + 1, "to": "b\u200bob"})

    async with asking(request) as asked:
        shown = data_of(await fetch(asked.dashboard, await asked.path()))["question"]
        assert shown["action"] == "pay \\u202eeno"
        assert "18446744073709551617" in shown["arguments"]
        assert "b\\u200bob" in shown["arguments"]
        assert await asked.answer({"answer": "deny"}) == 202


async def test_an_action_is_denied_with_a_reason() -> None:
    async with asking(lambda: request_approval("refund"), token=TOKENS) as asked:
        assert await asked.answer({"answer": "deny", "reason": "too much"}, token=TOKENS["bob"]) == 202
    assert isinstance(asked.result, nh.errors.ApprovalDeniedError)
    assert "bob" in str(asked.result)
    assert "too much" in str(asked.result)


async def test_a_read_only_dashboard_has_nobody_who_answers() -> None:
    async with asking(lambda: ask_user("What colour?"), token=None) as asked:
        pass
    assert isinstance(asked.result, nh.errors.NoHumanError)
    assert "read-only" in str(asked.result)


async def test_where_nothing_is_recorded_nobody_sees_a_question() -> None:
    dashboard = Dashboard(TaskTree(), token=TOKEN)
    async with nh.run(ScriptedExecutor(), human=dashboard.human):
        with pytest.raises(nh.errors.NoHumanError, match="nothing is recorded"):
            await ask_user("What colour?")
        assert await ask_user("What colour?", default="grey") == "grey"


async def test_a_question_that_is_withdrawn_takes_no_answer() -> None:
    async with asking(lambda: ask_user("What colour?", timeout=0.001)) as asked:
        await asked.ended.wait()
        node = next(node for node in asked.tree.snapshot().walk() if node.kind == "question")
        response = await act(asked.dashboard, f"/api/nodes/{node.id}/answer", {"answer": "late"})
        assert response.status == 409
    assert isinstance(asked.result, nh.errors.AnswerTimeoutError)


async def test_an_answer_comes_from_another_event_loop() -> None:
    async with asking(lambda: ask_user("What colour?")) as asked:
        path = await asked.path()

        def answer_elsewhere() -> int | None:
            return anyio.run(lambda: _status_of(asked.dashboard, path), backend="asyncio")

        assert await anyio.to_thread.run_sync(answer_elsewhere) == 202
    assert asked.result == "blue"


async def _status_of(dashboard: Dashboard, path: str) -> int | None:
    return (await act(dashboard, f"{path}/answer", {"answer": "blue"})).status


async def _answer_first_question(app: Any, reader: Reader, text: str) -> int | None:
    """Answer what is asked first, as a page does that watches."""
    stream = (await reader.next_event())[1]["stream"]
    while True:
        for node in (await reader.next_event())[1]["nodes"]:
            if "answer" in node.get("controls", ()):
                raw = json.dumps({"stream": stream, "text": text}).encode()
                return (await act(app, f"/dashboard/api/nodes/{node['id']}/answer", raw=raw)).status
