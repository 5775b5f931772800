"""The page when the service is restarted, away, or no longer shows it anything."""

from typing import Any

import pytest

from nighthawk_async.asgi import Dashboard
from nighthawk_async.observe import TaskTree
from tests.browser.pages import row
from tests.browser.scenes import Control, begin_triage, writing_into
from tests.browser.sites import TOKEN, OpenPage, OpenSite, Serve

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


class Service:
    """A dashboard that is another one after a restart; the connections of the one before may stay."""

    def __init__(self) -> None:
        self.restart("old")

    def restart(self, name: str) -> None:
        self.control = Control()
        self.tree = TaskTree()
        self.dashboard = Dashboard(self.tree, token=TOKEN)
        with writing_into(self.tree) as top:
            self.node = top.begin_child("request", name, control=self.control)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.dashboard(scope, receive, send)


def test_what_is_meant_for_a_node_never_reaches_another_one_after_a_restart(
    serve: Serve, open_page: OpenPage
) -> None:
    service = Service()
    page = open_page(f"{serve(service)}#token={TOKEN}")
    row(page, "old").click()
    page.locator("#details").get_by_role("button", name="Cancel").click()
    old = service.dashboard
    service.restart("new")
    page.locator("dialog").get_by_role("button", name="Cancel it").click()
    page.locator("#notice.bad", has_text="restarted").wait_for()
    page.locator("#details").get_by_role("button", name="Cancel").click()
    page.locator("dialog").wait_for()
    old.end_streams()
    row(page, "new").wait_for()
    page.locator("dialog").wait_for(state="detached")
    page.locator("#details").wait_for(state="hidden")
    assert page.locator("[aria-selected=true]").count() == 0
    assert service.control.asked == []
    row(page, "new").click()
    page.locator("#details").get_by_role("button", name="Cancel").click()
    page.locator("dialog").get_by_role("button", name="Cancel it").click()
    page.locator("#notice", has_text="cancel: accepted").wait_for()
    assert service.control.asked == [("cancel", "cancelled by dashboard")]


def test_whoever_forgets_the_token_sees_nothing_more_and_all_again_with_it(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site(token=TOKEN, protect_reading=True)
    step = begin_triage(site.top, site.control)
    page = open_page(f"{site.address}#token={TOKEN}")
    row(page, "draft reply").click()
    page.locator("#details .part.text").wait_for()
    page.locator("#token").click()
    page.locator("dialog input").wait_for()
    page.locator("#details").wait_for(state="hidden")
    page.locator("dialog").get_by_role("button", name="Back").click()
    assert page.locator("[role=treeitem]").count() == 0
    assert "draft reply" not in page.content()
    page.locator("#empty", has_text="have the token").wait_for()
    step.write("text", "we are sorry")
    page.locator("#token").click()
    page.locator("dialog input").fill(TOKEN)
    page.keyboard.press("Enter")
    row(page, "draft reply").click()
    page.locator("#details .part.text", has_text="we are sorry").wait_for()


def test_open_details_go_on_when_a_token_is_entered_again(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(token=TOKEN)
    step = begin_triage(site.top, site.control)
    page = open_page(f"{site.address}#token={TOKEN}")
    row(page, "draft reply").click()
    page.locator("#details .part.text").wait_for()
    page.locator("#token", has_text="Forget").click()
    page.locator("#token", has_text="Enter").click()
    page.locator("dialog input").fill(TOKEN)
    page.keyboard.press("Enter")
    step.write("text", "new words")
    page.locator("#details .part.text", has_text="new words").wait_for()


def test_an_answer_of_something_in_between_is_waited_out(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    site.top.begin_child("run", "before")
    page = open_page(site.address)
    row(page, "before").wait_for()
    for fulfil in (lambda route: route.fulfill(status=404), lambda route: route.fulfill(status=502)):
        page.route("**/api/changes", fulfil)
        site.dashboard.end_streams()
        page.locator("#connection", has_text="no connection, trying again").wait_for()
        page.unroute("**/api/changes")
        page.locator("#connection.live").wait_for()
    site.top.begin_child("run", "after")
    row(page, "after").wait_for()


def test_where_nothing_is_recorded_the_page_says_so_until_something_is(
    serve: Serve, open_page: OpenPage
) -> None:
    service = Service()
    recording, service.dashboard = service.dashboard, Dashboard()
    page = open_page(serve(service))
    page.locator("#connection", has_text="nothing is recorded yet").wait_for()
    service.dashboard = recording
    row(page, "old").wait_for()
    page.locator("#connection.live").wait_for()


def test_a_node_that_is_kept_no_longer_is_said_to_be(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    page.locator("#details h2").wait_for()
    problem = '{"type": "urn:nighthawk-async:problem:no-such-node"}'
    page.route("**/api/nodes/*/changes*", lambda route: route.fulfill(status=404, body=problem))
    site.dashboard.end_streams()
    page.locator("#details", has_text="kept no longer").wait_for()
