"""Evaluations on the page: cases and trials, two side by side, and the way to the tree of a trial."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from nighthawk_async.evals import (
    Case,
    CaseResult,
    Report,
    TrialResult,
    TrialStatus,
    evaluate,
    report_as_page,
    report_as_tree,
)
from nighthawk_async.observation import EVALUATION
from nighthawk_async.observe import TaskTree, view_as_page
from tests.browser.pages import row
from tests.browser.scenes import EVIL
from tests.browser.sites import OpenPage, OpenSite

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]

STATUSES: dict[str, TrialStatus] = {
    "p": "passed",
    "f": "failed",
    "e": "error",
    "t": "transport",
    "u": "unscored",
    "n": "not_run",
}
MARKS = dict(zip("pfetun", "✓✕!⇄?\N{EN DASH}", strict=True))


def report(began_at: float = 1_700_000_000.0, **cases: str) -> Report:
    """A report: for each case the first letters of the statuses of its trials."""
    found = tuple(
        CaseResult(
            name=name,
            digest=name,
            trials=tuple(
                TrialResult(case=name, number=number, status=STATUSES[letter], output=f"{name} {number}")
                for number, letter in enumerate(letters, 1)
            ),
        )
        for name, letters in cases.items()
    )
    most = max(map(len, cases.values()))
    return Report(subject="shop:classify", cases=found, scorers=(), trials_per_case=most, created_at=began_at)


def matrix(page: Any) -> list[list[str]]:
    """The texts of the cells that are seen, by case."""
    rows = page.locator("#evaluation tbody tr").all()
    return [
        ["".join(each.inner_text().split("\n")) for each in row.locator("th, td:visible").all()]
        for row in rows
    ]


def wait_for_rows(page: Any, number: int) -> None:
    pytest.importorskip("playwright.sync_api").expect(page.locator("#evaluation tbody tr")).to_have_count(
        number
    )


def signs(letters: str) -> str:
    return "".join(MARKS[letter] for letter in letters)


def test_two_reports_are_side_by_side_and_a_mark_leads_to_its_trial(
    open_site: OpenSite, open_page: OpenPage
) -> None:
    before = report(kettle="ppp", zip="pff", lamp="ppp", umbrella="nnn", gone="ppp")
    after = report(1_700_000_100.0, kettle="pfe", zip="ppu", lamp="ppp", umbrella="ppt", new="nnn")
    page = open_page(open_site(report_as_tree(after, baseline=before)).address)
    wait_for_rows(page, 6)
    assert matrix(page) == [
        ["kettle", signs("pfe"), "1 of 3", signs("ppp"), "3 of 3", "▼ worse -0.67"],
        ["zip", signs("ppu"), "2 of 2", signs("pff"), "1 of 3", "▲ better +0.67"],
        ["lamp", signs("ppp"), "3 of 3", signs("ppp"), "3 of 3", "= same"],
        ["umbrella", signs("ppt"), "2 of 2", signs("nnn"), MARKS["n"], "not decided in both"],
        ["new", signs("nnn"), MARKS["n"], "", MARKS["n"], "only here"],
        ["gone", "", MARKS["n"], signs("ppp"), "3 of 3", "only in the other"],
    ]
    panel = page.locator("#evaluation")
    status = panel.get_by_role("status").inner_text()
    assert status == f"pass rate {after.pass_rate:.3f}, 10 of 15 trials decided; 1 better, 1 worse"
    panel.get_by_role("combobox", name="Cases").select_option("better or worse")
    assert [each[0] for each in matrix(page)] == ["kettle", "zip"]
    panel.get_by_role("combobox", name="Compared with").select_option("nothing")
    panel.get_by_role("combobox", name="Cases").select_option("not all passed")
    assert [each[:1] for each in matrix(page)] == [["kettle"], ["zip"], ["umbrella"], ["new"]]
    assert all(len(each) == 3 for each in matrix(page))
    panel.get_by_role("button", name="trial 3: error").click()
    page.locator("#details").get_by_text("kettle 3").wait_for()
    assert page.locator("#details h2").inner_text() == "trial 3"
    panel.get_by_role("button", name="Open the evaluation").click()
    page.locator("#details").get_by_text("inconclusive").wait_for()


def test_names_stay_text_and_nothing_is_wider_than_the_page(open_site: OpenSite, open_page: OpenPage) -> None:
    hostile = report(**{EVIL: "f" * 40})
    site = open_site(report_as_tree(hostile, baseline=hostile))
    page = open_page(site.address, viewport={"width": 500, "height": 700}, color_scheme="dark")
    wait_for_rows(page, 1)
    assert matrix(page)[0][0] == EVIL
    assert page.locator("body img, [onerror]").count() == 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 500


def test_many_cases_are_shown_in_part_at_first(open_site: OpenSite, open_page: OpenPage) -> None:
    page = open_page(open_site(report_as_tree(report(**{f"case {n}": "p" for n in range(300)}))).address)
    wait_for_rows(page, 200)
    page.get_by_role("button", name="Show all 300 cases").click()
    wait_for_rows(page, 300)


@contextmanager
def evaluating(tree: TaskTree, gate: threading.Event) -> Iterator[None]:
    """An evaluation whose second case waits."""

    async def double(number: int) -> int:
        if number == 2:
            await anyio.to_thread.run_sync(gate.wait, 240)
        return 2 * number

    async def run() -> None:
        with tree.recording():
            cases = [Case(f"case {n}", inputs={"number": n}, expected=2 * min(n, 2)) for n in (1, 2, 3)]
            await evaluate(double, cases, trials=2, max_concurrent=None, name="shop:double")

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(partial(anyio.run, run, backend="trio"))
        try:
            yield
        finally:
            gate.set()
        done.result(240)


def test_an_evaluation_is_followed_while_it_runs(open_site: OpenSite, open_page: OpenPage) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    gate, site = threading.Event(), open_site()
    page = open_page(site.address)
    page.locator("#connection.live").wait_for()
    assert page.locator("#evaluations").is_hidden()
    with evaluating(site.tree, gate):
        page.locator("#evaluations").wait_for()
        if page.locator("#evaluation").is_hidden():
            page.keyboard.press("e")
        wait_for_rows(page, 3)
        expect(page.locator("#evaluation tbody tr").nth(2).locator("td").first).to_have_text("✕✕")
        assert [each[1:3] for each in matrix(page)] == [
            ["✓✓", "2 of 2"],
            ["●●", MARKS["n"]],
            ["✕✕", "0 of 2"],
        ]
        page.get_by_role("button", name="trial 2: running").focus()
    expect(page.locator("#evaluation tbody tr").nth(1).locator("td").first).to_have_text("✓✓")
    assert page.evaluate("document.activeElement.title") == "trial 2: passed"
    page.keyboard.press("Enter")
    row(page, "trial 2").wait_for()
    expect(page.locator("#details h2")).to_have_text("trial 2")
    page.keyboard.press("e")
    assert page.locator("#evaluation").is_hidden()


def test_a_mark_opens_the_tree_of_its_trial(open_site: OpenSite, open_page: OpenPage) -> None:
    site = open_site()
    top = site.top.begin_child("group", "evaluate it", attributes={f"{EVALUATION}subject": "it"})
    case = top.begin_child("group", "kettle")
    trial = case.begin_child("task", "trial 1")
    trial.begin_child("step", "the step of the trial").end("completed")
    trial.set_attributes({f"{EVALUATION}status": "passed"})
    for node in (trial, case, top):
        node.end("completed")
    page = open_page(site.address)
    page.get_by_role("button", name="trial 1: passed").click()
    row(page, "the step of the trial").wait_for()


def test_the_matrix_is_part_of_a_page_in_a_file(open_page: OpenPage, tmp_path: Path) -> None:
    tree = report_as_tree(report(kettle="pf"), baseline=report(kettle="pp"))
    (tmp_path / "page.html").write_text(view_as_page(tree.snapshot()), encoding="utf-8")
    page = open_page((tmp_path / "page.html").as_uri())
    wait_for_rows(page, 1)
    assert matrix(page) == [["kettle", "✓✕", "1 of 2", "✓✓", "2 of 2", "▼ worse -0.50"]]
    page.get_by_role("button", name="trial 2: failed").click()
    page.locator("#details").get_by_text("kettle 2").wait_for()


def test_a_report_in_a_file_needs_no_script(browser: Any, open_page: OpenPage, tmp_path: Path) -> None:
    text = report_as_page(report(kettle="pf" * 20, **{EVIL: "pp"}), baseline=report(kettle="pp"))
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    page = open_page((tmp_path / "report.html").as_uri(), java_script_enabled=False, color_scheme="dark")
    assert page.title() == "Evaluation of shop:classify"
    assert page.locator("#report-1-1").is_hidden()
    page.get_by_role("link", name="trial 1: passed").first.click()
    page.locator("#report-1-1").wait_for()
    assert page.locator("#report-1-1 pre").inner_text() == "kettle 1"
    page.emulate_media(media="print")
    assert page.locator("#report-2-2 pre").inner_text() == f"{EVIL} 2"
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
