"""The page in a browser: what is seen, what the keys do, and that nothing told becomes markup."""

from asyncio import CancelledError
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.human import request_approval
from nighthawk_async.observe import TaskTree
from nighthawk_async.testing import ScriptedExecutor
from nighthawk_async.types.usage import Usage
from tests.browser.pages import row, wait_for_titles
from tests.browser.scenes import EVIL, begin_triage, many_requests
from tests.browser.sites import TOKEN, OpenPage, OpenSite, Serve

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def test_the_tree_shows_states_in_words_and_tokens_and_cost(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(title="Triage")
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    assert page.title() == "Triage"
    assert row(page, "classify").locator(".state").inner_text() == "completed"
    assert row(page, "look up order").locator(".state").inner_text() == "raised"
    assert "1840 / 96" in row(page, "classify").inner_text()
    assert "$0.0018" in row(page, "POST /tickets").inner_text()
    assert page.locator("#totals").inner_text().split()[-1] == "$0.0018"
    assert page.locator("#states .failed").inner_text().split() == ["✕", "failed", "1"]


def test_what_is_not_exact_is_marked_and_the_mark_is_explained(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    run = site.top.begin_child("run", "main")
    exact, inexact = run.begin_child("model_request", "exact"), run.begin_child("model_request", "inexact")
    exact.set_usage(Usage(requests=1, input_tokens=40, output_tokens=2, cost=Decimal("0.00002")))
    usage = Usage(requests=1, input_tokens=400, output_tokens=13, cost=Decimal("0.5"), is_complete=False)
    inexact.set_usage(replace(usage, unpriced_requests=1))
    page = open_page(site.address)
    row(page, "inexact").click()
    cells = row(page, "inexact").locator("> *")
    assert cells.all_inner_texts()[3:5] == ["~400 / 13", "~$0.5000+"]
    assert "estimated" in cells.nth(3).get_attribute("title")
    assert "without a known price" in cells.nth(4).get_attribute("title")
    assert row(page, "main").locator("> *").all_inner_texts()[3:5] == ["~440 / 15", "~$0.5000+"]
    cells = page.locator("[role=treeitem]").nth(1).locator("> *")
    assert cells.all_inner_texts()[3:5] == ["40 / 2", "<$0.0001"]
    assert cells.nth(3).get_attribute("title") is None
    assert page.locator("#totals dd").all_inner_texts()[1:] == ["~440", "~15", "~$0.5000+"]
    usage_row = page.locator("#details .usage tr", has_text="input tokens")
    usage_row.locator("td", has_text="~400").first.wait_for()
    row(page, "main").click()
    page.locator("#details h2", has_text="main").wait_for()
    assert usage_row.locator("td").all_inner_texts() == ["0", "~440"]
    page.keyboard.press("?")
    page.locator("dialog", has_text="not exact").wait_for()


def test_a_cancelled_node_shows_what_it_works_with_and_its_details_the_type(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    for name, state, error in (
        ("silent", "cancelled", CancelledError()),
        ("told", "cancelled", TimeoutError("the customer has left")),
        ("wrong", "failed", LookupError()),
    ):
        site.top.begin_child("step", name, inputs={"ticket": 7}).end(state, error=error)
    page = open_page(site.address)
    row(page, "silent").click()
    hints = [row(page, name).locator(".hint").inner_text() for name in ("silent", "told", "wrong")]
    assert hints == ["ticket: 7", "TimeoutError: the customer has left", "LookupError"]
    page.locator("#details .error", has_text="CancelledError").wait_for()


def test_what_is_told_stays_text_whatever_it_holds(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(title=EVIL)
    step = begin_triage(site.top, site.control)
    step.write("text", EVIL)
    step.begin_child("tool_call", EVIL, source=EVIL, attributes={EVIL: EVIL}).end(
        "failed", error=ValueError(EVIL)
    )
    page = open_page(site.address)
    row(page, "classify").click()
    page.locator("#details .values").first.wait_for()
    cell = page.locator("#details .values td").first
    assert "<img src=x" in cell.inner_text()
    row(page, "find_order").click()
    page.locator("#details .error").wait_for()
    row(page, "<img src=x").click()
    page.locator("#details h2", has_text="<img src=x").wait_for()
    row(page, "draft reply").click()
    page.locator("#details .part pre", has_text="<script>").wait_for()
    assert page.title() == EVIL
    assert page.locator("body img, body script, [onerror]").count() == 0


def test_a_transcript_goes_on_while_it_is_looked_at(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    step = begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    part = page.locator("#details .part.text pre")
    part.wait_for()
    assert part.inner_text() == "Dear customer, "
    for word in ("we ", "are ", "sorry."):
        step.write("text", word)
    page.locator("#details .part.text pre", has_text="we are sorry.").wait_for()
    step.write("tool_call", '{"amount": 12}', key="refund#1")
    page.locator("#details .part.tool_call", has_text="refund#1").wait_for()
    step.set_usage(Usage(requests=1, input_tokens=7, output_tokens=3))
    step.end("completed", outputs={"reply": "We are sorry."})
    page.locator("#details .values", has_text="We are sorry.").wait_for()
    page.locator("#details .facts .state", has_text="completed").wait_for()
    assert page.locator("#details .part").count() == 3
    assert page.locator("#details .usage tr", has_text="input tokens").locator("td").first.inner_text() == "7"


def test_streams_that_end_early_are_gone_on_with(
    open_site: OpenSite, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.asgi.dashboard.live._STREAM_SECONDS", 0.2)
    site = open_site()
    step = begin_triage(site.top, site.control)
    page = open_page(site.address)
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url.rpartition("/api/")[2]))
    row(page, "draft reply").click()
    for number in range(4):
        page.wait_for_event("request")
        step.write("text", f"{number} ")
        step.begin_child("tool_call", f"tool {number}")
    row(page, "tool 3").wait_for()
    page.locator("#details .part.text pre", has_text="3 ").wait_for()
    assert page.locator("#details .part.text pre").inner_text() == "Dear customer, 0 1 2 3 "
    assert page.locator("#connection").inner_text() == "live"
    assert streams.count("changes") > 1
    assert len([each for each in streams if each.startswith("nodes/7/changes?stream=")]) > 1


def test_a_long_transcript_is_shown_as_it_is_kept(open_site: OpenSite, open_page: OpenPage) -> None:
    tree = TaskTree(max_transcript_characters=600)
    site = open_site(tree)
    step = begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    page.locator("#details .part.text").wait_for()
    for number in range(40):
        step.write("text", f"{number} 🦉 words, ")
        step.write("tool_call" if number % 7 == 3 else "reasoning", f"({number} 🦉)", key=None)
    step.end("completed")
    page.locator("#details .part", has_text="(39 🦉)").wait_for()
    kept = next(view for view in tree.snapshot().walk() if view.name == "draft reply").transcript
    assert any(part.is_cut for part in kept)
    assert page.locator("#details .part pre").all_text_contents() == [part.text for part in kept]
    assert page.locator("#details .label", has_text="left out").count() == 1


def test_of_thousands_of_nodes_only_those_that_are_seen_are_elements(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    many_requests(site.top, 1_000)
    page = open_page(site.address)
    page.locator("#totals dd", has_text="5000").first.wait_for()
    assert page.locator("[role=treeitem]").count() < 60
    page.locator("#tree").focus()
    page.keyboard.press("End")
    row(page, "GET /classify/0").wait_for()
    assert row(page, "GET /classify/0").get_attribute("aria-selected") == "true"
    assert page.locator("[role=treeitem]").count() < 60
    page.keyboard.press("ArrowRight")
    page.locator("[role=treeitem][aria-level='3']").first.wait_for()
    site.top.begin_child("request", "the newest")
    page.locator("#totals dd", has_text="5001").first.wait_for()
    assert row(page, "GET /classify/0").get_attribute("aria-selected") == "true", "it stays in view"
    page.keyboard.press("Home")
    row(page, "the newest").wait_for()


def test_the_keys_are_those_of_a_tree(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    page.locator("#tree").focus()

    def selected() -> str:
        active = page.locator("#tree").get_attribute("aria-activedescendant")
        return page.locator(f"#{active} .title").inner_text()

    def press(*keys: str) -> str:
        for key in keys:
            page.keyboard.press(key)
        page.evaluate("new Promise(requestAnimationFrame)")
        return selected()

    assert press("Home") == "POST /tickets/{id}"
    assert press("ArrowDown", "ArrowDown") == "classify"
    assert press("ArrowRight") == "classify"
    assert row(page, "classify").get_attribute("aria-expanded") == "true"
    assert press("ArrowRight") == "openai:gpt-5-mini"
    assert press("ArrowLeft") == "classify"
    assert press("ArrowLeft") == "classify"
    assert row(page, "classify").get_attribute("aria-expanded") == "false"
    assert press("ArrowDown") == "look up order"
    assert press("ArrowLeft", "ArrowLeft") == "triage"
    item = row(page, "look up order")
    names = ("aria-level", "aria-posinset", "aria-setsize")
    assert [item.get_attribute(name) for name in names] == ["3", "2", "3"]
    press("Enter")
    page.locator("#details:focus").wait_for()
    page.keyboard.press("Escape")
    page.locator("#tree:focus").wait_for()
    page.keyboard.press("Escape")
    page.locator("#details").wait_for(state="hidden")
    page.keyboard.press("?")
    page.locator("dialog", has_text="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def test_the_keys_of_the_tree_hold_wherever_nothing_else_has_the_focus(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    assert page.evaluate("document.activeElement === document.body")

    def selected() -> str:
        page.evaluate("new Promise(requestAnimationFrame)")
        return page.locator("[aria-selected=true] .title").inner_text()

    page.keyboard.press("ArrowDown")
    assert selected() == "POST /tickets/{id}"
    assert page.evaluate("document.activeElement.id") == "tree"
    for key, name in (("End", "draft reply"), ("Home", "POST /tickets/{id}"), ("ArrowDown", "triage")):
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        assert selected() == name
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Enter")
    page.locator("#details:focus").wait_for()
    page.keyboard.press("ArrowDown")
    assert selected() == "triage"
    page.locator("#theme").focus()
    page.keyboard.press("ArrowDown")
    assert selected() == "triage"
    page.locator("#search").focus()
    page.keyboard.press("Home")
    assert selected() == "triage"


def test_escape_leads_to_the_tree_from_anywhere(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    page.keyboard.press("Escape")
    page.locator("#tree:focus").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    page.locator("#tree:focus").wait_for()


def test_what_is_looked_for_is_shown_with_what_is_above_it(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    many_requests(site.top, 100)
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("STEP 42")
    wait_for_titles(page, ["GET /classify/42", "classify"])
    page.locator("#search").fill("")
    page.locator("#states .failed").click()
    page.locator("#matches", has_text="5 matches").wait_for()
    page.locator("#kind").select_option("tool_call")
    page.locator("#matches", has_text="1 match").wait_for()
    assert page.locator(".title").last.inner_text() == "find_order"


def test_whoever_has_the_token_influences_a_step(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(token=TOKEN)
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    page.locator("#details").get_by_role("button", name="Cancel").wait_for()
    page.keyboard.press("c")
    page.locator("dialog").get_by_role("button", name="Cancel it").click()
    for wrong in ("not-the-token-at-all", "wr\xf6ng \u6f22"):
        page.locator("dialog input[type=password]").fill(wrong)
        page.keyboard.press("Enter")
        page.locator("dialog .wrong", has_text="not the token").wait_for()
        assert page.locator("#token", has_text="Enter token").count() == 1
    page.locator("dialog").get_by_role("button", name="Back").click()
    page.locator("dialog").wait_for(state="detached")
    assert site.control.asked == []
    page.locator("#token").click()
    page.locator("dialog input").fill(TOKEN)
    page.keyboard.press("Enter")
    page.locator("#token", has_text="Forget token").wait_for()
    row(page, "draft reply").click()
    page.keyboard.press("s")
    page.locator("dialog", has_text="Ctrl+Enter sends").locator("textarea").fill("Be brief.")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.locator("#notice", has_text="steer: accepted").wait_for()
    page.keyboard.press("p")
    page.locator("#notice", has_text="suspend: accepted").wait_for()
    page.keyboard.press("c")
    page.locator("dialog").get_by_role("button", name="Back").click()
    page.keyboard.press("c")
    page.locator("dialog").get_by_role("button", name="Cancel it").click()
    page.locator("#notice", has_text="cancel: accepted").wait_for()
    assert site.control.asked == [
        ("steer", "Be brief."),
        ("suspend", None),
        ("cancel", "cancelled by dashboard"),
    ]


def test_an_action_goes_on_when_the_right_token_follows_a_wrong_one(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site(token=TOKEN)
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    page.locator("#details").get_by_role("button", name="Suspend").click()
    page.locator("dialog input[type=password]").fill("not-the-token-at-all")
    page.keyboard.press("Enter")
    page.locator("dialog .wrong").wait_for()
    page.locator("dialog input[type=password]").fill(TOKEN)
    page.keyboard.press("Enter")
    page.locator("#notice", has_text="suspend: accepted").wait_for()
    assert site.control.asked == [("suspend", None)]


@pytest.mark.parametrize("wrong", ["not-the-token-at-all", "wr%C3%B6ng"])
def test_a_wrong_token_in_the_address_is_told_at_once(
    open_site: OpenSite, open_page: OpenPage, wrong: str
) -> None:
    site = open_site(token=TOKEN)
    begin_triage(site.top, site.control)
    page = open_page(f"{site.address}#token={wrong}")
    page.locator("#notice.bad", has_text="not the token").wait_for()
    row(page, "draft reply").wait_for()
    page.locator("#token", has_text="Enter token").wait_for()


def test_a_token_that_cannot_be_checked_is_asked_for_again(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site(token=TOKEN)
    page = open_page(site.address)
    page.locator("#token", has_text="Enter").click()
    page.route("**/api/actor", lambda route: route.abort())
    page.locator("dialog input[type=password]").fill(TOKEN)
    page.keyboard.press("Enter")
    page.locator("dialog .wrong", has_text="cannot be reached").wait_for()
    page.unroute("**/api/actor")
    page.locator("dialog input[type=password]").fill(TOKEN)
    page.keyboard.press("Enter")
    page.locator("#token", has_text="Forget").wait_for()


def test_without_a_token_the_page_is_read_only(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    row(page, "draft reply").click()
    page.locator("#details", has_text="Read-only").wait_for()
    page.keyboard.press("c")
    page.locator("#notice.bad", has_text="read-only").wait_for()
    assert page.locator("#token").is_hidden()


def test_a_protected_page_asks_for_the_token_or_takes_it_from_its_address(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    site = open_site(token=TOKEN, protect_reading=True)
    begin_triage(site.top, site.control)
    page = open_page(site.address)
    page.locator("dialog input[type=password]").fill(TOKEN)
    page.keyboard.press("Enter")
    row(page, "draft reply").wait_for()
    page.reload()
    row(page, "draft reply").wait_for()
    page.locator("#token", has_text="Forget token").click()
    page.locator("dialog input[type=password]").wait_for()
    other = open_page(f"{site.address}#token={TOKEN}")
    row(other, "draft reply").wait_for()
    assert TOKEN not in other.url


def test_an_action_is_approved_on_the_page(serve: Serve, open_page: OpenPage) -> None:
    dashboard = Dashboard(token=TOKEN)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        async with nh.run(ScriptedExecutor(), human=dashboard.human):
            approval = await request_approval("refund", arguments={"amount": 12, "note": EVIL})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": approval.approvals[0].approver.encode()})

    address = serve(dashboard.beside(app))
    page = open_page(f"{address}dashboard/#token={TOKEN}")
    page.locator("#connection.live").wait_for()
    page.evaluate("window.answer = fetch('/refund').then((response) => response.text()); undefined")
    page.locator("#asked", has_text="1 question waiting").click()
    form = page.locator(".asking")
    form.locator("pre", has_text="<img src=x").wait_for()
    form.get_by_role("button", name="Approve").click()
    assert page.evaluate("window.answer") == "dashboard"
    page.locator("#asked").wait_for(state="hidden")
    page.locator("#details .facts .state", has_text="completed").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_or_the_switch_and_fits_a_small_window(
    open_site: OpenSite, open_page: OpenPage, scheme: str
) -> None:
    site = open_site()
    begin_triage(site.top, site.control)
    page = open_page(site.address, color_scheme=scheme, viewport={"width": 800, "height": 600})
    row(page, "draft reply").click()
    page.locator("#details h2").wait_for()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 800
    assert page.evaluate("document.querySelector('#tree').scrollWidth") <= 800
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    assert page.evaluate(colour) == (light if scheme == "light" else dark)
    page.locator("#theme").click()
    assert page.evaluate(colour) == light
    page.locator("#theme").click()
    assert page.evaluate(colour) == dark
    page.reload()
    page.locator("#theme", has_text="dark").wait_for()
    assert page.evaluate(colour) == dark
