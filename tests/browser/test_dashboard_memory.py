"""A memory on the page: searched, corrected, and erased with a receipt."""

import re
import threading
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from tests.browser.scenes import EVIL
from tests.browser.sites import TOKEN, OpenPage, OpenSite

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def elsewhere(function: object, *arguments: object) -> None:
    """Run an async function in a thread of its own: this one counts as one that runs an event loop."""
    thread = threading.Thread(target=lambda: anyio.run(function, *arguments))  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_records_are_searched_corrected_and_erased_by_keyboard(
    open_site: OpenSite, open_page: OpenPage, tmp_path: Path
) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    with nh.memory.open(tmp_path / "memory.db") as memory:

        async def fill() -> None:
            await memory.store("refunds", "Refunds take three days.", tags=[EVIL])
            await memory.store("owls", {"wings": 2})
            await memory.store(EVIL, EVIL)

        elsewhere(fill)
        site = open_site(token=TOKEN, memory=memory)
        page = open_page(f"{site.address}#token={TOKEN}")
        expect(page.locator("#memories")).to_be_visible()
        page.keyboard.press("m")
        rows = page.locator("#memory li")
        expect(rows).to_have_count(3)
        expect(page.locator("#memory input")).to_be_focused()
        expect(rows.first.locator("h3")).to_have_text(EVIL)
        assert page.locator("#memory img").count() == 0
        page.keyboard.type("refunds")
        expect(rows).to_have_count(1)

        page.get_by_role("button", name="Correct refunds").press("Enter")
        field = page.get_by_role("textbox", name="Value")
        expect(field).to_be_focused()
        assert field.input_value() == "Refunds take three days."
        field.fill("Refunds take five days.")
        field.press("Control+Enter")
        expect(rows.locator("pre")).to_have_text("Refunds take five days.")
        expect(page.locator("#memory input")).to_be_focused()

        page.get_by_role("button", name="Erase refunds").press("Enter")
        dialog = page.get_by_role("dialog", name="Erase?")
        dialog.get_by_role("button", name="Back").press("Enter")
        expect(rows).to_have_count(1)
        page.get_by_role("button", name="Erase refunds").press("Enter")
        dialog.get_by_role("button", name="Erase it").press("Enter")
        expect(page.locator("#memory p[role=status]")).to_have_text(re.compile("Receipt .*2 versions"))
        expect(rows).to_have_count(0)
        page.get_by_role("searchbox", name="Search the memory").fill("owls")
        page.get_by_role("button", name="Correct owls").press("Enter")
        field.fill("{no JSON")
        field.press("Control+Enter")
        expect(page.locator("#notice")).to_contain_text("no JSON")
        page.locator("#token").click()  # forget it
        expect(rows).to_have_count(0)
