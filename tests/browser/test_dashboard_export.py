"""Saving what is below a node: as a page that opens from the disk, and as a recording."""

import re
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.observe import TaskTree, read_recording, view_as_page
from tests.browser.pages import row, wait_for_titles
from tests.browser.scenes import EVIL, Control, begin_triage, writing_into
from tests.browser.sites import TOKEN, OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def save(page: Any, menu: Any, item: str, path: Path) -> Path:
    menu.locator("summary").click()
    with page.expect_download() as download:
        menu.get_by_role("button", name=item).click()
    download.value.save_as(path / download.value.suggested_filename)
    return path / download.value.suggested_filename


def triage_with_evil(site: Site) -> None:
    step = begin_triage(site.top, site.control)
    step.write("text", EVIL)
    step.begin_child("tool_call", EVIL, source=EVIL, inputs={EVIL: EVIL}, attributes={EVIL: EVIL}).end(
        "failed", error=ValueError(f"{EVIL} <!-- \u2028")
    )


def test_a_node_is_saved_as_a_page_that_opens_from_the_disk(
    open_site: OpenSite, open_page: OpenPage, tmp_path: Path
) -> None:
    site = open_site(title=EVIL, token=TOKEN, protect_reading=True)
    triage_with_evil(site)
    site.top.begin_child("request", "another one")
    page = open_page(f"{site.address}#token={TOKEN}")
    row(page, "triage").click()
    path = save(page, page.locator("#details .menu"), "Page", tmp_path)
    assert path.name == "node-2.html"
    file = open_page(path.as_uri())
    row(file, "draft reply").click()
    part = file.locator("#details .part.text pre", has_text="<script>")
    part.wait_for()
    assert part.inner_text().startswith("Dear customer, <img src=x")
    assert file.title() == EVIL
    assert row(file, "another one").count() == 0
    assert file.locator("#connection.file").inner_text().startswith("as it was on")
    assert file.locator("#details .buttons").inner_text() == ""
    assert file.locator(".menu, #token:visible").count() == 0
    row(file, "<img src=x").click()
    file.locator("#details .error", has_text="<!--").wait_for()
    assert file.locator("body img, [onerror]").count() == 0
    assert file.locator("script").count() == 2, "the data and the script of the page"
    assert file.locator("#totals").inner_text().split()[-1] == "$0.0018"


def test_a_file_is_searched_and_charted_like_a_service(open_page: OpenPage, tmp_path: Path) -> None:
    tree = TaskTree()
    with writing_into(tree) as top:
        begin_triage(top, Control())
    path = tmp_path / "page.html"
    path.write_text(view_as_page(tree.snapshot(), title="A file"), encoding="utf-8")
    page = open_page(path.as_uri())
    for text in ("label=refu", 'label: "refund', "=4711"):
        page.locator("#search").fill(text)
        page.locator("#matches", has_text="1 match").wait_for()
    wait_for_titles(page, ["POST /tickets/{id}", "triage", "look up order", "find_order"])
    page.locator("#search").fill("")
    page.locator("#charts").click()
    page.locator("#chart rect").first.wait_for()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("f")
    page.locator("#details h2", has_text="find_order").wait_for()
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator("#details h2", has_text="find_order").wait_for()


def test_no_other_script_runs_in_a_file(open_page: OpenPage, browser: Any, tmp_path: Path) -> None:
    text = view_as_page(TaskTree().snapshot())
    added = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", f"{added}</body>"), encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator("#empty", has_text="Nothing has been recorded").wait_for()
    assert page.title() == "nighthawk-async"
    context.close()


def test_everything_is_saved_as_a_recording(open_site: OpenSite, open_page: OpenPage, tmp_path: Path) -> None:
    site = open_site()
    triage_with_evil(site)
    page = open_page(site.address)
    row(page, "draft reply").wait_for()
    path = save(page, page.locator("header .menu"), "Recording", tmp_path)
    assert path.name == "node-0.jsonl"
    saved = [(view.id, view.name, view.state) for view in read_recording(path).snapshot().walk()]
    assert saved == [(view.id, view.name, view.state) for view in site.tree.snapshot().walk()]


def test_a_function_is_saved_with_its_step(open_site: OpenSite, open_page: OpenPage, tmp_path: Path) -> None:
    site = open_site()
    function = site.top.begin_child("run", "main").begin_child("function", "classify")
    function.begin_child("step", "its step")
    page = open_page(site.address)
    row(page, "classify").click()
    path = save(page, page.locator("#details .menu"), "Recording", tmp_path)
    kinds = [view.kind for view in read_recording(path).snapshot().walk()]
    assert kinds == ["tree", "function", "step"]


def test_what_cannot_be_saved_is_told(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    site.top.begin_child("run", "main")
    page = open_page(site.address)
    row(page, "main").click()
    menu = page.locator("#details .menu")
    page.route(re.compile(r".*/api/nodes/1/page.*"), lambda route: route.abort())
    menu.locator("summary").click()
    menu.get_by_role("button", name="Page").click()
    page.locator("#notice.bad", has_text="cannot be reached").wait_for()
    menu.locator("summary").click()
    menu.locator("summary").focus()
    page.keyboard.press("Escape")
    menu.get_by_role("button", name="Page").wait_for(state="hidden")
    assert page.locator("#details").is_visible()
