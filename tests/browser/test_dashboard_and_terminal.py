"""The page and the terminal show the same tree for the same run."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.observe import TaskTree
from nighthawk_async.observe.node_words import (
    label_of,
    tokens_text,
)
from nighthawk_async.observe.tree_rows import Row, rows_of
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from nighthawk_async.types.usage import Usage, cost_text
from tests.browser.pages import row
from tests.browser.scenes import begin_triage
from tests.browser.sites import OpenPage, OpenSite

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]

USAGE = Usage(requests=1, input_tokens=812, output_tokens=31, cost=Decimal("0.0125"))


async def look_up(ticket: str) -> str:
    return ticket.upper()


@nh.natural_function
async def classify(ticket: str) -> str:
    label: str
    """natural
    Set <:label> to what <ticket> is about; <look_up> knows more. Raise ValueError when it is about nothing.
    """
    return label


def answer(request: nh.models.ModelRequest) -> ModelResponse:
    asked = str(request.messages)
    if "blank page" in asked:
        call = tool_call(
            "nh_outcome", kind="raise", raise_message="about nothing", raise_error_type="ValueError"
        )
        return model_response(call, usage=USAGE)
    if len(request.messages) == 1:
        return model_response(tool_call("nh_eval", expression="await look_up(ticket)"), usage=USAGE)
    label = tool_call("nh_assign", target_path="label", expression="'refund'")
    return model_response(label, tool_call("nh_outcome", kind="pass"), text="A refund.", usage=USAGE)


async def triage(tickets: list[str]) -> None:
    async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))):
        await nh.parallel.settle(classify, tickets)
        await classify("money")


def record(tickets: list[str], tree: TaskTree) -> None:
    """Carry a run out, in a thread: the browser has an event loop in this one."""

    def carry_out() -> None:
        with tree.recording():
            anyio.run(triage, tickets)

    with ThreadPoolExecutor() as threads:
        threads.submit(carry_out).result()


def terminal_rows(tree: TaskTree) -> list[tuple[Any, ...]]:
    """What each row of the terminal says, where a function and its step share one, the newest root first."""
    rows = rows_of(tree.snapshot())
    return [_of_terminal(each) for root in reversed(list(_roots(rows))) for each in root]


def _roots(rows: list[Row]) -> Iterator[list[Row]]:
    begins = [index for index, each in enumerate(rows) if not each.levels and each.kind == "node"]
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        yield [each for each in rows[begin:end] if each.kind == "node"]


def _of_terminal(shown: Row) -> tuple[Any, ...]:
    view, label = shown.view, label_of(shown.view)
    tokens = tokens_text(view.subtree_usage).removesuffix(" tok").replace(",", "")
    kind = label.kind or view.kind
    figures = (tokens, cost_text(view.subtree_usage))
    return ((shown.step or view).id, len(shown.levels), kind, label.name, shown.state, *figures)


def page_rows(page: Any) -> list[tuple[Any, ...]]:
    """What each row of the page says, everything opened."""
    while (closed := page.locator("[role=treeitem][aria-expanded=false] .twisty")).count():
        closed.first.click()
        page.evaluate("new Promise(requestAnimationFrame)")
    return [_of_page(each) for each in page.locator("[role=treeitem]").all()]


def _of_page(item: Any) -> tuple[Any, ...]:
    cells = item.locator("> *").all_inner_texts()
    mark = "~" if cells[3].startswith("~") else ""
    tokens = sum(int(each) for each in cells[3].removeprefix("~").split(" / ") if each)
    return (
        item.get_attribute("data-id"),
        int(item.get_attribute("aria-level")) - 1,
        item.locator(".kind").inner_text(),
        item.locator(".title").inner_text(),
        item.locator(".state").inner_text(),
        f"{mark}{tokens}" if tokens else "",
        cells[4],
    )


def test_the_page_has_the_rows_of_the_terminal_for_a_run_that_has_ended(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    tree = TaskTree()
    record(["refund please", "a blank page"], tree)
    site = open_site(tree)
    page = open_page(site.address, viewport={"width": 1280, "height": 2_000})
    row(page, "classify").wait_for()
    expected = terminal_rows(tree)
    assert page_rows(page) == expected
    assert {each[2] for each in expected} == {"run", "group", "task", "function", "model", "tool"}
    assert {each[4] for each in expected} == {"completed", "failed"}
    assert expected[0][5] == str(5 * (812 + 31))


def test_the_page_has_the_rows_of_the_terminal_while_a_run_goes_on(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    step = begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    assert page_rows(page) == terminal_rows(site.tree)
    step.begin_child("question", "ask_user", state="waiting")
    row(page, "ask_user").wait_for()
    assert page_rows(page) == terminal_rows(site.tree)


def test_the_page_and_the_terminal_write_costs_and_tokens_alike(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    costs = ("1E-7", "0.00004999", "0.00005", "0.0001", "0.00125", "0.03125", "0.99995", "99.9", "123456.125")
    for cost in costs:
        usage = Usage(requests=1, input_tokens=12, output_tokens=3, cost=Decimal(cost))
        for inexact, unpriced in ((False, 0), (True, 0), (False, 1), (True, 1)):
            run = site.top.begin_child("run", cost)
            run.set_usage(replace(usage, is_complete=not inexact, unpriced_requests=unpriced))
            run.end("completed")
    page = open_page(site.address, viewport={"width": 1280, "height": 2_000})
    row(page, "1E-7").wait_for()
    expected = terminal_rows(site.tree)
    assert page_rows(page) == expected
    assert [each[6] for each in expected[-2:]] == ["~<$0.0001", "<$0.0001"]
    assert [each[6] for each in expected[:2]] == ["~$123,456.12+", "$123,456.12+"]
