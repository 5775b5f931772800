"""Search on the page: a binding by its value, and the way to it."""

from typing import Any

import pytest

from nighthawk_async.observe import TaskTree
from tests.browser.pages import row, wait_for_titles
from tests.browser.scenes import many_requests
from tests.browser.sites import OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def end_tickets(site: Site) -> None:
    """Finished requests, of which the rows are closed; their values are too long for a row."""
    for number, label in enumerate(("refund", "refused", "praise")):
        request = site.top.begin_child("request", f"POST /{number}")
        function = request.begin_child("function", "classify")
        step = function.begin_child(
            "step", "classify step", inputs={"ticket": "x" * 300, "password": "s3cret"}
        )
        step.end("completed", outputs={"label": label, "order": 4700 + number})
        function.end("completed")
        request.end("completed")


def search(page: Any, text: str, matches: str) -> None:
    page.locator("#search").fill(text)
    page.locator("#matches", has_text=matches).wait_for()


def test_a_value_or_its_beginning_finds_the_node_and_opens_the_way(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    end_tickets(site)
    page = open_page(site.address)
    wait_for_titles(page, ["POST /2", "POST /1", "POST /0"])
    search(page, "label=ref", "2 matches")
    wait_for_titles(page, ["POST /1", "classify", "POST /0", "classify"])
    search(page, "label=refund", "1 match")
    wait_for_titles(page, ["POST /0", "classify"])
    search(page, "=4702", "1 match")
    wait_for_titles(page, ["POST /2", "classify"])
    page.locator("#search").press("Enter")
    page.locator("#details .values", has_text="praise").wait_for()
    assert page.locator("[aria-selected=true] .title").inner_text() == "classify"
    page.keyboard.press("/")
    page.locator("#search").fill("")
    wait_for_titles(page, ["POST /2", "classify", "POST /1", "POST /0"])


def test_what_was_closed_before_opens_for_a_search_and_is_closed_after_it(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    end_tickets(site)
    page = open_page(site.address)
    for _ in range(2):
        row(page, "POST /0").locator(".twisty").click()
    search(page, "label=refund", "1 match")
    wait_for_titles(page, ["POST /0", "classify"])
    row(page, "POST /0").locator(".twisty").click()
    wait_for_titles(page, ["POST /0"])
    search(page, "label=ref", "2 matches")
    wait_for_titles(page, ["POST /1", "classify", "POST /0", "classify"])
    page.locator("#search").fill("")
    wait_for_titles(page, ["POST /2", "POST /1", "POST /0"])


def test_hidden_values_are_not_found(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    end_tickets(site)
    page = open_page(site.address)
    search(page, "order=47", "3 matches")
    for text in ("s3cret", "password=s3c", "=s3cret"):
        with page.expect_response("**/api/search?*") as response:
            page.locator("#search").fill(text)
        assert response.value.json() == {"nodes": []}
        page.locator("#empty", has_text="Nothing matches.").wait_for()


def test_one_value_among_ten_thousand_nodes_is_found(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(TaskTree(max_finished_trees=2_001))
    many_requests(site.top, 2_000)
    site.top.begin_child("request", "needle").begin_child("step", "found", inputs={"order": "4711"}).end(
        "completed"
    )
    page = open_page(site.address)
    page.locator("#totals dd", has_text="10.0k").first.wait_for()
    search(page, "order=47", "1 match")
    wait_for_titles(page, ["needle", "found"])
