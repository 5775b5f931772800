"""The chart of tokens, cost and latency over time."""

from decimal import Decimal
from typing import Any

import pytest

from nighthawk_async.types.usage import Usage
from tests.browser.scenes import EVIL
from tests.browser.sites import OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


NONE = "\N{EN DASH}"


class Clock:
    """The time of the tree, in Unix seconds."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("nighthawk_async.observe.tree.time", clock)
    return clock


def call(site: Site, clock: Clock, name: str, model: str, *, seconds: float, tokens: int, cost: str) -> None:
    """A call of a function, with one model request in it."""
    function = site.top.begin_child("function", name)
    step = function.begin_child("step", f"{name} step")
    request = step.begin_child("model_request", model)
    clock.now += seconds
    request.set_usage(Usage(requests=1, input_tokens=tokens, output_tokens=1, cost=Decimal(cost)))
    for node in (request, step, function):
        node.end("completed")


def open_chart(page: Any) -> Any:
    page.locator("#connection.live").wait_for()
    page.locator("#charts").click()
    return page.locator("#chart")


def texts(table: Any) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]


def test_it_shows_figures_per_function_and_per_model(
    open_site: OpenSite, open_page: OpenPage, clock: Clock
) -> None:
    site = open_site()
    call(site, clock, "classify", "small", seconds=1, tokens=99, cost="0.01")
    call(site, clock, "classify", "large", seconds=3, tokens=299, cost="0.5")
    call(site, clock, "reply", "large", seconds=8, tokens=499, cost="0.25")
    page = open_page(site.address)
    chart = open_chart(page)
    chart.locator("rect").first.wait_for()
    totals = chart.locator(".totals-table")
    assert texts(totals) == [
        ["reply", "1", "499", "1", "$0.2500", "8.00 s", "8.00 s"],
        ["classify", "2", "398", "2", "$0.5100", "2.00 s", "3.00 s"],
    ]
    bars = chart.locator("rect title").all_text_contents()
    assert [title.partition(",")[0] for title in bars] == ["classify", "classify", "reply"]
    chart.get_by_role("combobox", name="Per").select_option("model")
    chart.get_by_role("combobox", name="Figure").select_option("cost")
    assert [each[:2] for each in texts(totals)] == [["large", "2"], ["small", "1"]]
    chart.locator("summary").click()
    figures = chart.locator(".figures table")
    assert figures.locator("caption").inner_text() == "cost per model over time"
    assert figures.locator("thead th").all_inner_texts() == ["From", "large", "small"]
    assert [each[1:] for each in texts(figures)] == [[NONE, "$0.0100"], ["$0.5000", NONE], ["$0.2500", NONE]]
    chart.get_by_role("combobox", name="Figure").select_option("latency")
    assert chart.locator("circle").count() == 3
    assert chart.locator("polyline").count() == 1
    assert [each[1:] for each in texts(figures)] == [[NONE, "1.00 s"], ["3.00 s", NONE], ["8.00 s", NONE]]
    assert chart.locator("svg").get_attribute("aria-label").startswith("median latency per model over time")


def test_an_empty_one_says_so_and_goes_on(open_site: OpenSite, open_page: OpenPage, clock: Clock) -> None:
    site = open_site()
    page = open_page(site.address)
    chart = open_chart(page)
    chart.get_by_text("No tokens yet.").wait_for()
    assert chart.locator("svg").is_hidden()
    assert chart.locator("table:visible").count() == 0
    call(site, clock, "classify", "small", seconds=1, tokens=99, cost="0.01")
    chart.locator("rect").wait_for()
    assert chart.get_by_text("No tokens yet.").is_hidden()
    page.locator("#charts").click()
    assert chart.is_hidden()


@pytest.mark.parametrize("figure", ["tokens", "cost", "latency"])
def test_one_point_stands_in_the_middle(
    open_site: OpenSite, open_page: OpenPage, clock: Clock, figure: str
) -> None:
    site = open_site()
    call(site, clock, "classify", "small", seconds=1, tokens=99, cost="0.01")
    page = open_page(site.address)
    chart = open_chart(page)
    chart.get_by_role("combobox", name="Figure").select_option(figure)
    mark = chart.locator("rect, circle")
    assert mark.count() == 1
    box, whole = mark.bounding_box(), chart.locator("svg").bounding_box()
    middle = (box["x"] + box["width"] / 2 - whole["x"]) / whole["width"]
    assert 0.4 < middle < 0.65
    assert box["width"] < whole["width"] / 8
    labels = chart.locator(".tick").all_text_contents()
    assert "NaN" not in "".join(labels)


def test_many_series_are_joined_and_names_stay_text(
    open_site: OpenSite, open_page: OpenPage, clock: Clock
) -> None:
    site = open_site()
    for number in range(9):
        call(site, clock, f"{EVIL}{number}", "small", seconds=1, tokens=1_000 - number, cost="0.01")
    page = open_page(site.address, viewport={"width": 500, "height": 700}, color_scheme="dark")
    chart = open_chart(page)
    chart.locator("rect").first.wait_for()
    names = [each[0] for each in texts(chart.locator(".totals-table"))]
    assert names == [*(f"{EVIL}{number}" for number in range(6)), "all others"]
    assert page.locator("body img, [onerror]").count() == 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 500
    fill = "getComputedStyle(document.querySelector('#chart rect')).fill"
    assert page.evaluate(fill) == "rgb(111, 168, 245)"
    page.locator("#charts").blur()
    page.keyboard.press("g")
    chart.wait_for(state="hidden")


def test_usage_of_an_agent_counts_for_the_models_that_it_names(
    open_site: OpenSite, open_page: OpenPage, clock: Clock
) -> None:
    site = open_site()
    step = site.top.begin_child("step", "an agent")
    for model, tokens in (("large", 30), ("small", 10)):
        step.set_usage(Usage(requests=2, input_tokens=tokens), model=model)
    page = open_page(site.address)
    chart = open_chart(page)
    chart.locator("rect").wait_for()
    assert [each[0] for each in texts(chart.locator(".totals-table"))] == ["outside functions"]
    chart.get_by_role("combobox", name="Per").select_option("model")
    assert [each[:3] for each in texts(chart.locator(".totals-table"))] == [
        ["large", "2", "30"],
        ["small", "2", "10"],
    ]
