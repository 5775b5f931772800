"""A browser that is on the machine, for the tests of the page."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.browser.sites import OpenPage, OpenSite, Serve, served, site_of

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser. While it is there, the thread counts as one that runs an event loop.

    Hence it is closed after the last test of its module, and is not kept for the session.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)} is there")
    with sync_api.sync_playwright() as playwright:
        # Those who test as root have no sandbox, and containers little shared memory.
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        launched = playwright.chromium.launch(executable_path=path, args=options)
        yield launched
        launched.close()


@pytest.fixture
def serving() -> Iterator[ExitStack]:
    """What is served, until the pages are closed: they would keep a server from ending."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def open_site(serving: ExitStack) -> OpenSite:
    """Serves a dashboard."""
    return lambda tree=None, **settings: serving.enter_context(site_of(tree, **settings))


@pytest.fixture
def serve(serving: ExitStack) -> Serve:
    """Serves an application, and gives its address."""
    return lambda app: serving.enter_context(served(app))


@pytest.fixture
def open_page(browser: Any, serving: ExitStack) -> Iterator[OpenPage]:
    """Opens an address in a window of its own. What the page complains of fails the test at its end."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_at(address: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.goto(address)
        return page

    yield open_at
    for context in contexts:
        context.close()
    # A refusal that the test asks for is told of as an error of loading.
    assert [each for each in complaints if "Failed to load resource" not in each] == []
