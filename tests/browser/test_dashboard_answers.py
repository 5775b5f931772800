"""Questions and requests for approval that are answered on the page."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.human import ask_user, request_approval
from nighthawk_async.testing import ScriptedExecutor
from tests.browser.pages import focused
from tests.browser.sites import TOKEN, OpenPage, Serve

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]

BOB = "the-token-of-bob-the-builder"


class Asked:
    """A page, and an application beside its dashboard that asks what it is told to."""

    def __init__(self, serve: Serve, open_page: OpenPage, ask: Callable[[], Awaitable[Any]]) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert scope["type"] == "http"
            async with nh.run(ScriptedExecutor()):
                answer = repr(await ask())
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": answer.encode()})

        dashboard = Dashboard(token={"ada": TOKEN, "bob": BOB})
        self._open_page = open_page
        self._address = f"{serve(dashboard.beside(app))}dashboard/"
        self.page = self.open(TOKEN)

    def open(self, token: str) -> Any:
        page = self._open_page(f"{self._address}#token={token}")
        page.locator("#connection.live").wait_for()
        return page

    def ask(self) -> None:
        script = "window.answer = fetch('/').then((response) => response.text()); undefined"
        self.page.evaluate(script)
        self.page.locator("#asked").wait_for()

    @property
    def answer(self) -> str:
        return self.page.evaluate("window.answer")


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        (int, "9007199254740993", "9007199254740993"),
        (list[int], "[12345678901234567890]", "[12345678901234567890]"),
        (str, "12", "'12'"),
        (str | None, "12", "'12'"),
    ],
)
def test_what_is_typed_arrives_with_every_digit(
    serve: Serve, open_page: OpenPage, schema: Any, typed: str, answer: str
) -> None:
    asked = Asked(serve, open_page, lambda: ask_user("Well?", schema=schema))
    asked.ask()
    asked.page.locator("#asked").click()
    asked.page.locator(".asking textarea").fill(typed)
    asked.page.locator(".asking").get_by_role("button", name="Answer").click()
    assert asked.answer == answer


def test_the_choice_that_is_shown_is_the_one_that_arrives(serve: Serve, open_page: OpenPage) -> None:
    schema = Literal[9007199254740993, 9007199254740992] | None
    asked = Asked(serve, open_page, lambda: ask_user("Which?", schema=schema))
    asked.ask()
    asked.page.locator("#asked").click()
    options = asked.page.locator(".asking option")
    options.first.wait_for(state="attached")
    assert options.all_inner_texts() == ["9007199254740993", "9007199254740992", "null"]
    asked.page.locator(".asking").get_by_role("button", name="Answer").click()
    assert asked.answer == "9007199254740993"


def test_the_default_can_be_taken(serve: Serve, open_page: OpenPage) -> None:
    asked = Asked(serve, open_page, lambda: ask_user("How many?", schema=int, default=7))
    asked.ask()
    asked.page.locator("#asked").click()
    assert asked.page.locator(".asking textarea").get_attribute("placeholder") == "int"
    asked.page.locator(".asking").get_by_role("button", name="Take the default: 7").click()
    assert asked.answer == "7"


def test_an_approval_says_until_when_and_is_voted_on_once_by_each_with_the_keyboard(
    serve: Serve, open_page: OpenPage
) -> None:
    async def ask() -> Any:
        return [vote.approver for vote in (await request_approval("wipe", quorum=2, timeout=3600)).approvals]

    asked = Asked(serve, open_page, ask)
    asked.ask()
    page = asked.page
    page.keyboard.press("a")
    page.locator(".asking button:focus", has_text="Approve").wait_for()
    page.locator(".asking", has_text=r"left").wait_for()
    page.keyboard.press("Enter")
    page.locator(".asking", has_text="1 of 2 approved: ada").wait_for()
    assert focused(page) == "Approve"
    page.keyboard.press("Enter")
    page.locator("#notice.bad", has_text="ada has approved already").wait_for()
    other = asked.open(BOB)
    other.locator("#asked").wait_for()  # before that, its connection is live and nobody asks anything
    other.keyboard.press("a")
    other.locator(".asking button:focus", has_text="Approve").wait_for()
    other.keyboard.press("Enter")
    assert asked.answer == "['ada', 'bob']"
    page.locator(".asking").wait_for(state="detached")
    assert focused(page) == "details"


def test_the_form_gets_the_focus_also_when_it_comes_late(serve: Serve, open_page: OpenPage) -> None:
    asked = Asked(serve, open_page, lambda: ask_user("Well?"))
    held: list[Any] = []
    asked.page.route("**/api/nodes/*/changes*", lambda route: held.append(route))
    asked.ask()
    asked.page.keyboard.press("a")
    while not held:
        asked.page.wait_for_timeout(10)
    held.pop().continue_()
    asked.page.locator(".asking textarea:focus").wait_for()
    asked.page.keyboard.type("here")
    asked.page.locator(".asking").get_by_role("button", name="Answer").click()
    assert asked.answer == "'here'"
