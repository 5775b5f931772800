"""The page while what it shows changes: what is pressed, focused, selected and typed stays."""

from typing import Any

import pytest

from nighthawk_async.observe import TaskTree
from nighthawk_async.types.usage import Usage
from tests.browser.pages import focused, row, wait_for_titles
from tests.browser.scenes import begin_triage, many_requests
from tests.browser.sites import TOKEN, OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


class Busy:
    """A step with long values, whose figures change, and its open details."""

    def __init__(self, site: Site, open_page: OpenPage) -> None:
        text = "\n".join(f"line {number}" for number in range(200))
        self.step = site.top.begin_child("step", "busy", inputs={"text": text}, control=site.control)
        self.page = open_page(f"{site.address}#token={TOKEN}")
        row(self.page, "busy").click()
        self.details = self.page.locator("#details")
        self.button("Cancel").wait_for()
        self._tokens = 0

    def button(self, name: str) -> Any:
        return self.details.get_by_role("button", name=name, exact=True)

    def change(self) -> None:
        """Consume something, and wait until the page shows it."""
        self._tokens += 7
        self.step.set_usage(Usage(requests=1, input_tokens=self._tokens))
        self.details.locator(".usage tr", has_text="input tokens").locator(
            "td", has_text=str(self._tokens)
        ).first.wait_for()


def test_a_button_that_is_pressed_while_the_figures_change_is_pressed(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    busy = Busy(open_site(token=TOKEN), open_page)
    busy.change()
    place = busy.button("Cancel").bounding_box()
    busy.page.mouse.move(place["x"] + 5, place["y"] + 5)
    busy.page.mouse.down()
    busy.change()
    busy.page.mouse.up()
    busy.page.locator("dialog", has_text="Cancel?").wait_for()


def test_focus_selection_and_scrolling_stay_while_the_figures_change(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    busy = Busy(open_site(token=TOKEN), open_page)
    page, value = busy.page, "document.querySelector('#details .values td div')"
    busy.change()
    busy.button("Steer").focus()
    page.evaluate(f"{value}.scrollTop = 500")
    page.evaluate(f"getSelection().selectAllChildren({value})")
    selected = page.evaluate("getSelection().toString()")
    busy.change()
    assert focused(page) == "Steer"
    assert page.evaluate(f"{value}.scrollTop") == 500
    assert len(selected) > 1_000
    assert page.evaluate("getSelection().toString()") == selected


def test_a_transcript_that_is_told_anew_is_not_made_anew(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(TaskTree(max_transcript_characters=600), token=TOKEN)
    step = begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    parts = page.locator("#details .part pre")
    parts.nth(1).wait_for()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#details .part.text pre'))")
    site.dashboard.end_streams()
    step.write("text", "we ")
    page.locator("#details .part.text", has_text="we ").wait_for()
    assert page.evaluate("getSelection().toString()").startswith("Dear customer, ")
    page.context.set_offline(True)
    site.dashboard.end_streams()
    for number in range(40):
        step.write("text" if number % 2 else "reasoning", f"{number} and more words, ")
    page.context.set_offline(False)
    page.locator("#details .part", has_text="39 and").wait_for()
    kept = next(view for view in site.tree.snapshot().walk() if view.name == "draft reply").transcript
    assert parts.all_text_contents() == [part.text for part in kept]


def test_a_node_that_is_dropped_does_not_take_the_focus_from_the_search(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site(TaskTree(max_finished_trees=3), token=TOKEN)
    for number in range(3):
        site.top.begin_child("request", f"old {number}").end("completed")
    page = open_page(site.address)
    row(page, "old 0").click()
    page.locator("#details h2").wait_for()
    page.locator("#search").focus()
    for number in range(3):
        site.top.begin_child("request", f"new {number}").end("completed")
    page.locator("#details").wait_for(state="hidden")
    page.keyboard.type("new?")
    assert page.locator("#search").input_value() == "new?"
    assert page.locator("dialog").count() == 0


def test_names_that_every_object_of_the_language_has_are_names_like_any_other(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    names = ("constructor", "toString", "valueOf", "hasOwnProperty", "__proto__")
    site.top.begin_child("step", "names").end("completed", outputs=dict.fromkeys(names, 1))
    page = open_page(site.address)
    row(page, "names").click()
    page.locator("#details .values tbody tr").first.wait_for()
    shown = page.locator("#details .values tbody tr").all_inner_texts()
    assert sorted(each.split() for each in shown) == sorted([name, "\N{EN DASH}", "1"] for name in names)


def test_an_asked_for_suspension_is_seen_and_can_be_taken_back(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site(token=TOKEN)
    step = begin_triage(site.top, site.control)
    page = open_page(f"{site.address}#token={TOKEN}")
    row(page, "draft reply").click()
    details = page.locator("#details")
    details.get_by_role("button", name="Suspend").wait_for()
    page.keyboard.press("p")
    row(page, "draft reply").locator(".badge", has_text="to be suspended").wait_for()
    details.locator(".facts .state", has_text="waits before its next turn").wait_for()
    page.keyboard.press("p")
    details.get_by_role("button", name="Suspend").wait_for()
    row(page, "draft reply").locator(".badge").wait_for(state="hidden")
    page.keyboard.press("p")
    details.get_by_role("button", name="Do not suspend").wait_for()
    step.change_state("suspended")
    details.get_by_role("button", name="Resume").wait_for()
    row(page, "draft reply").locator(".badge").wait_for(state="hidden")
    assert [name for name, _ in site.control.asked] == ["suspend", "resume", "suspend"]


def test_keys_do_nothing_to_a_row_that_the_filter_hides(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(token=TOKEN)
    begin_triage(site.top, site.control)
    page = open_page(f"{site.address}#token={TOKEN}")
    row(page, "draft reply").click()
    page.locator("#details h2").wait_for()
    page.keyboard.press("Escape")
    page.locator("#details").wait_for(state="hidden")
    page.locator("#search").fill("find_order")
    page.locator("#matches", has_text="1 match").wait_for()
    page.keyboard.press("Escape")
    page.locator("#tree:focus").wait_for()
    assert page.locator("#search").input_value() == "find_order"
    page.keyboard.press("p")
    page.locator("#notice", has_text="No row is chosen").wait_for()
    assert site.control.asked == []


def test_elements_are_in_the_order_that_is_seen_and_counted_as_they_are_shown(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    many_requests(site.top, 3)
    page = open_page(site.address)
    row(page, "GET /classify/2").wait_for()
    site.top.begin_child("request", "newest")
    row(page, "newest").wait_for()
    tops = page.locator("[role=treeitem][aria-level='1'] .title").all_inner_texts()
    assert tops == ["newest", *(f"GET /classify/{number}" for number in (2, 1, 0))]
    page.locator("#search").fill("GET /classify/1")
    wait_for_titles(page, ["GET /classify/1"])
    item = row(page, "GET /classify/1")
    assert [item.get_attribute(name) for name in ("aria-posinset", "aria-setsize")] == ["1", "1"]


def test_values_are_searched_whole_and_numbers_are_names_of_nodes(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    many_requests(site.top, 4)
    inputs = {f"value{number}": f"{'.' * 300} needle{number}" for number in range(6)}
    site.top.begin_child("step", "haystack", inputs=inputs)
    other = site.top.begin_child("step", "another one")
    page = open_page(site.address)
    row(page, "haystack").wait_for()
    for text in ("needle5", "NEEDLE0"):
        page.locator("#search").fill(text)
        wait_for_titles(page, ["haystack"])
    page.locator("#search").fill("thread")
    page.locator("#matches", has_text="0 matches").wait_for()
    other.end("completed", outputs={"thread": "red"})
    wait_for_titles(page, ["another one"])
    page.locator("#search").fill("#2")
    wait_for_titles(page, ["GET /classify/0", "classify"])


def test_a_narrow_window_shows_the_whole_of_each_row(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address, viewport={"width": 400, "height": 700})
    row(page, "draft reply").locator(".state").wait_for()
    assert page.evaluate("document.querySelector('#tree').scrollWidth") <= 400
    place = row(page, "draft reply").locator(".state").bounding_box()
    assert place["x"] + place["width"] <= 400
