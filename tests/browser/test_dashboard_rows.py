"""Rows of the page: a function and its step share one, and what has ended well closes by itself."""

from typing import Any

import pytest

from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import TaskTree
from nighthawk_async.types.usage import Usage
from tests.browser.pages import row, titles, wait_for_titles
from tests.browser.scenes import many_requests
from tests.browser.sites import TOKEN, OpenPage, OpenSite

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def begin_call(above: NodeWriter, name: str, **step_settings: Any) -> tuple[NodeWriter, NodeWriter]:
    """A function and its step, which go on."""
    function = above.begin_child("function", name, source="service:3")
    step = function.begin_child("step", f"{name} step", source="service:7", **step_settings)
    return function, step


def end_call(function: NodeWriter, step: NodeWriter) -> None:
    step.end("completed", outputs={"label": "refund"})
    function.end("completed", outputs={"return": "a refund"})


def selected(page: Any) -> Any:
    return page.locator("[aria-selected=true] .title")


def test_a_function_and_its_only_step_are_one_row(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(token=TOKEN)
    run = site.top.begin_child("run", "main")
    function, step = begin_call(run, "classify", inputs={"ticket": "my money"}, control=site.control)
    step.set_usage(Usage(requests=1, input_tokens=70, output_tokens=4))
    step.begin_child("tool_call", "find_order")
    page = open_page(f"{site.address}#token={TOKEN}")
    wait_for_titles(page, ["main", "classify", "find_order"])
    item = row(page, "classify")
    assert item.locator(".kind").inner_text() == "function"
    assert item.locator(".hint").inner_text() == 'ticket: "my money"'
    assert "70 / 4" in item.inner_text()
    assert "step" in item.locator(".span").get_attribute("class").split()
    item.click()
    page.locator("#details h2", has_text="classify · classify step").wait_for()
    page.keyboard.press("p")
    page.locator("#notice", has_text="suspend: accepted").wait_for()
    step.change_state("suspended")
    item.locator(".state", has_text="suspended").wait_for()
    page.locator("#details .facts").get_by_role("button", name="classify, node 2").click()
    page.locator("#details h2", has_text="classify").wait_for()
    page.locator("#details .facts", has_text="service:3").wait_for()
    assert selected(page).all_inner_texts() == ["classify"]
    step.change_state("running")
    end_call(function, step)
    page.locator("#details .values", has_text="a refund").wait_for()
    page.locator("#details .facts").get_by_role("button", name="classify step, node 3").click()
    page.locator("#details .values", has_text="label").wait_for()


def test_a_function_with_a_second_step_has_rows_for_both(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    function, _ = begin_call(site.top, "classify")
    page = open_page(site.address)
    wait_for_titles(page, ["classify"])
    row(page, "classify").click()
    function.begin_child("step", "second step")
    wait_for_titles(page, ["classify", "classify step", "second step"])
    assert selected(page).all_inner_texts() == ["classify step"]


def test_a_link_to_the_function_leads_to_the_row(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_call(site.top.begin_child("run", "main"), "classify")
    page = open_page(f"{site.address}#node=2")
    page.locator("#details .facts", has_text="function, node 2").wait_for()
    assert selected(page).all_inner_texts() == ["classify"]
    page.locator("#tree").focus()
    page.keyboard.press("ArrowUp")
    selected(page).filter(has_text="main").wait_for()
    assert selected(page).all_inner_texts() == ["main"]


def test_two_that_share_a_row_are_one_match(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    end_call(*begin_call(site.top, "classify"))
    page = open_page(site.address)
    page.locator("#search").fill("classify")
    page.locator("#matches", has_text="1 match").wait_for()
    page.locator("#search").fill("service:7")
    page.locator("#matches", has_text="1 match").wait_for()
    wait_for_titles(page, ["classify"])
    assert "beside" not in row(page, "classify").get_attribute("class").split()


def test_what_has_ended_well_closes_by_itself(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    first, second = (site.top.begin_child("request", f"POST /{number}") for number in (1, 2))
    call = begin_call(first, "classify")
    call[1].begin_child("tool_call", "find_order").end("completed")
    begin_call(second, "translate")
    page = open_page(site.address)
    wait_for_titles(page, ["POST /2", "translate", "POST /1", "classify", "find_order"])
    end_call(*call)
    wait_for_titles(page, ["POST /2", "translate", "POST /1", "classify"])
    first.end("completed")
    wait_for_titles(page, ["POST /2", "translate", "POST /1"])
    row(page, "POST /1").locator(".twisty").click()
    wait_for_titles(page, ["POST /2", "translate", "POST /1", "classify", "find_order"])


def test_a_failure_or_a_question_below_keeps_it_open(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    failing, asking, well = (site.top.begin_child("request", name) for name in ("failing", "asking", "well"))
    tool = failing.begin_child("tool_call", "delegate")
    tool.begin_child("step", "broken").end("failed", error=ValueError("no"))
    question = asking.begin_child("tool_call", "careful").begin_child("question", "ask_user", state="waiting")
    well.begin_child("step", "fine").end("completed")
    for node in (tool, failing, asking, well):
        node.end("completed")
    page = open_page(site.address)
    wait_for_titles(page, ["well", "asking", "careful", "ask_user", "failing", "delegate", "broken"])
    question.end("completed")
    wait_for_titles(page, ["well", "asking", "careful", "failing", "delegate", "broken"])


def test_what_somebody_opens_or_closes_stays_so(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    nodes = [site.top.begin_child("request", f"POST /{number}") for number in range(3)]
    steps = [node.begin_child("group", f"group {number}") for number, node in enumerate(nodes)]
    for step in steps:
        step.begin_child("task", "task")
    page = open_page(site.address)
    row(page, "group 2").wait_for()
    row(page, "POST /2").locator(".twisty").click()
    row(page, "POST /1").locator(".twisty").click()
    row(page, "POST /1").locator(".twisty").click()
    row(page, "group 1").locator(".twisty").click()
    for node in (*steps, *nodes):
        node.end("completed")
    page.locator("#states .completed", has_text="6").wait_for()
    assert titles(page)[0] == "POST /2"
    wait_for_titles(page, ["POST /2", "POST /1", "group 1", "POST /0", "group 0", "task"])
    row(page, "POST /1").locator(".twisty").click()
    wait_for_titles(page, ["POST /2", "POST /1", "POST /0", "group 0", "task"])


def test_where_somebody_looks_nothing_closes(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    other = site.top.begin_child("request", "other")
    request = site.top.begin_child("request", "POST /batch")
    step = request.begin_child("step", "classify")
    page = open_page(site.address)
    row(page, "classify").click()
    for node in (step, request, other):
        node.end("completed")
    page.locator("#states .completed", has_text="3").wait_for()
    wait_for_titles(page, ["POST /batch", "classify", "other"])


def test_a_run_that_is_alone_stays_open(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    run = site.top.begin_child("run", "main")
    group = run.begin_child("group", "map")
    for number in range(2):
        task = group.begin_child("task", f"task {number}")
        task.begin_child("step", "inner").end("completed")
        task.end("completed")
    group.end("completed")
    run.end("completed")
    page = open_page(site.address)
    wait_for_titles(page, ["main", "map", "task 0", "task 1"])


def test_ten_thousand_nodes_have_a_row_for_each_request(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(TaskTree(max_finished_trees=2_000))
    many_requests(site.top, 2_000)
    page = open_page(site.address)
    page.locator("#totals dd", has_text="10.0k").first.wait_for()
    assert page.locator("[role=treeitem]").count() < 60
    row(page, "GET /classify/1999").click()
    page.keyboard.press("ArrowRight")
    row(page, "classify").wait_for()
    assert row(page, "GET /classify/1998").get_attribute("aria-expanded") == "false"
    page.keyboard.press("f")
    page.locator("[aria-selected=true] .hint", has_text="TimeoutError").wait_for()
