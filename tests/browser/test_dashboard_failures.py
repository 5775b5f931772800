"""Failures on the page: how many are below a node, the way to the next one, and links to nodes."""

from typing import Any

import pytest

from tests.browser.pages import row
from tests.browser.sites import OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def begin_batch(site: Site) -> None:
    """A request with three tasks, of which two fail because of a step below."""
    request = site.top.begin_child("request", "POST /batch")
    for number in range(3):
        task = request.begin_child("task", f"task {number}")
        step = task.begin_child("step", f"step {number}")
        for node in (step, task):
            if number == 1:
                node.end("completed")
            else:
                node.end("failed", error=ValueError("no"))
    request.end("completed")


def test_a_node_says_how_many_have_failed_below(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_batch(site)
    page = open_page(site.address)
    row(page, "POST /batch").locator(".badge", has_text="2 failed below").wait_for()
    assert row(page, "task 0").locator(".badge").inner_text() == "1 failed below"
    assert row(page, "step 0").locator(".badge").is_hidden()
    assert row(page, "task 1").locator(".badge").is_hidden()


def test_the_key_and_the_button_go_to_the_next_failure(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_batch(site)
    page = open_page(site.address)
    button = page.locator("#failures", has_text="2 failures")
    button.wait_for()
    row(page, "POST /batch").locator(".twisty").click()
    page.keyboard.press("f")
    wait_for_selected(page, "step 0")
    page.keyboard.press("f")
    wait_for_selected(page, "step 2")
    button.click()
    wait_for_selected(page, "step 0")


def wait_for_selected(page: Any, title: str) -> None:
    page.locator("[aria-selected=true] .title", has_text=title).wait_for()


def test_without_failures_there_is_no_button(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    site.top.begin_child("request", "GET /").end("completed")
    page = open_page(site.address)
    row(page, "GET /").wait_for()
    assert page.locator("#failures").is_hidden()
    page.keyboard.press("f")
    page.locator("#notice", has_text="Nothing has failed.").wait_for()


def test_a_link_to_a_node_opens_it(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_batch(site)
    page = open_page(site.address)
    row(page, "step 2").click()
    page.locator("#details h2", has_text="step 2").wait_for()
    link = page.url
    assert "#node=" in link
    other = open_page(link)
    other.locator("#details h2", has_text="step 2").wait_for()
    wrong = open_page(f"{link.partition('#')[0]}#node=999")
    wrong.locator("#notice", has_text="There is no node #999").wait_for()
    old = open_page(f"{link.partition('&')[0]}&stream=another")
    old.locator("#notice", has_text="an earlier start").wait_for()
