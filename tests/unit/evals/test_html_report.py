"""Reports as files of HTML."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nighthawk_async.evals import (
    CaseResult,
    Report,
    ReportError,
    Score,
    TrialResult,
    TrialStatus,
    check_gate,
    evaluate,
    report_as_page,
)
from tests.unit.evals.evals_support import cases, executor, model, stars

EVIL = "</pre></style><script>alert(1)</script><!--<img src=x onerror=alert(1)>\"'&amp;]]>\u2028\ud800\x00"
REVERSED = "\u202etxt.exe\u2066"
VOID = ("meta", "img", "link", "br")


class Parsed(HTMLParser):
    """The elements of a page and their texts; every element has its end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def all_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    @property
    def text(self) -> str:
        return " ".join(text for name, text in self.texts if name != "style")


def trial(case: str, number: int, status: TrialStatus = "passed", **fields: object) -> TrialResult:
    return TrialResult(case=case, number=number, status=status, **fields)  # type: ignore[arg-type]


def report(*trials: TrialResult, digest: str | None = None, subject: str = "shop:stars") -> Report:
    """A report of these trials."""
    by_case: dict[str, list[TrialResult]] = {}
    for each in trials:
        by_case.setdefault(each.case, []).append(each)
    found = tuple(
        CaseResult(name=name, inputs="review='…'", digest=digest, trials=tuple(each))
        for name, each in by_case.items()
    )
    most = max(len(case.trials) for case in found)
    scorers = tuple(dict.fromkeys(name for each in trials for name in each.scores))
    return Report(subject=subject, cases=found, scorers=scorers, trials_per_case=most)


@pytest.mark.anyio
async def test_a_page_has_the_figures_the_matrix_and_each_trial() -> None:
    found = await evaluate(stars, cases("One", "Two"), trials=3, model=model(cost="0.01"))
    page = Parsed(report_as_page(found))
    for text in ("Pass rate (pass@1)", "1.000", "95% interval", "pass@3: at least one of 3", "$0.0600"):
        assert text in page.text
    assert f"{found.usage.input_tokens:,} / {found.usage.output_tokens:,}" in page.text
    links = [each["href"] for each in page.all_of("a")]
    ids = [each["id"] for each in page.all_of("div") if "id" in each]
    assert links == [f"#{each}" for each in ids]
    assert len(ids) == len(set(ids)) == 6
    assert "review=One stars." in page.text


def test_statuses_are_signs_and_words_not_only_colours() -> None:
    statuses: tuple[TrialStatus, ...] = ("passed", "failed", "error", "transport", "unscored", "not_run")
    page = Parsed(report_as_page(report(*(trial("one", n, each) for n, each in enumerate(statuses, 1)))))
    marks = page.all_of("a")
    assert [each["data-status"] for each in marks] == [*statuses]
    assert [each["aria-label"] for each in marks][1::4] == ["trial 2: failed", "trial 6: not run"]
    assert len(set(page.text_of("a"))) == 6


def test_it_needs_no_script_and_no_other_file() -> None:
    text = report_as_page(report(trial("one", 1)))
    page = Parsed(text)
    assert {"script", "link", "img", "iframe", "form"}.isdisjoint(name for name, _ in page.elements)
    assert not re.search(r"url\(|@import|https?:", text)
    assert not any(name.startswith("on") or name == "style" for _, each in page.elements for name in each)
    (style,) = page.text_of("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(each["content"] for each in page.all_of("meta") if "http-equiv" in each)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "light-dark(" in style
    assert "@media print" in style


def test_hostile_texts_stay_text() -> None:
    hostile = trial(
        EVIL, 1, "error", output=EVIL, error=EVIL, scores={EVIL: Score(1.0, passed=True, reason=EVIL)}
    )
    case = CaseResult(name=EVIL, inputs=EVIL, expected=EVIL, tags=(EVIL,), trials=(hostile,))
    evil = Report(
        subject=EVIL, cases=(case,), scorers=(EVIL,), trials_per_case=1, model=EVIL, created_at=1e300
    )
    text = report_as_page(evil, baseline=evil)
    plain = report_as_page(report(hostile), baseline=report(hostile))
    text.encode()  # every character can be written
    known = {name for name, _ in Parsed(plain).elements}
    page = Parsed(text)
    assert {name for name, _ in page.elements} == known
    assert page.text.count("<script>alert(1)</script>") > 10
    assert not {"\x00", "\ud800"} & set(text)


def test_characters_that_reverse_the_reading_direction_are_shown() -> None:
    page = report_as_page(report(trial("one", 1, "failed", output=REVERSED)))
    assert "[U+202E]txt.exe[U+2066]" in page
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page)


def test_long_texts_and_many_trials_are_bounded() -> None:
    one = report_as_page(report(trial("one", 1, "failed", output="x" * 5_000_000, error="y" * 5_000_000)))
    assert len(one) < 30_000
    assert "more characters" in one
    many = report(
        *(trial(f"case {n}", 1, "failed", output="x" * 100_000, error="y" * 1_000) for n in range(5_000))
    )
    assert len(report_as_page(many)) < 12_000_000


def test_two_reports_stand_side_by_side() -> None:
    before = report(trial("same", 1), trial("worse", 1), trial("better", 1, "failed"), trial("gone", 1))
    after = report(trial("same", 1), trial("worse", 1, "failed"), trial("better", 1), trial("new", 1))
    page = Parsed(report_as_page(after, baseline=before))
    assert "Compared with the baseline: inconclusive" in page.text
    for text in ("▼ worse -1.00", "▲ better +1.00", "= same", "only in the report", "only in the baseline"):
        assert text in page.text
    changes = [each["data-change"] for each in page.all_of("td") if "data-change" in each]
    assert changes == ["worse", "better"]
    links = [each["href"] for each in page.all_of("a")]
    assert links[:2] == ["#report-1-1", "#baseline-1-1"]
    assert len(links) == len({*links}) == 8


def test_a_verdict_that_the_data_decide_is_marked() -> None:
    before = report(*(trial(f"case {n}", 1) for n in range(10)))
    after = report(*(trial(f"case {n}", 1, "failed") for n in range(10)))
    page = Parsed(report_as_page(after, baseline=before))
    (verdict,) = (each for each in page.all_of("p") if each.get("class") == "verdict")
    assert verdict["data-change"] == "worse"


def test_a_baseline_that_does_not_belong_to_it_is_refused_or_said(tmp_path: Path) -> None:
    here = report(trial("one", 1))
    with pytest.raises(ReportError, match="report on other:it"):
        report_as_page(here, baseline=report(trial("one", 1), subject="other:it"))
    page = report_as_page(here, baseline=report(trial("one", 1), subject="other:it"), any_subject=True)
    assert "= same" in page
    with pytest.raises(ReportError, match="cannot be read"):
        report_as_page(here, baseline=tmp_path / "none.jsonl")
    apart = report_as_page(here, baseline=report(trial("two", 1)))
    assert "There is nothing to compare" in apart


def test_nothing_decided_has_no_figures() -> None:
    page = Parsed(report_as_page(report(trial("one", 1, "not_run", error="the budget is spent"))))
    assert "\N{EN DASH}" in page.text_of("td")
    assert "Error: the budget is spent" in page.text


@pytest.mark.anyio
async def test_a_stored_report_is_the_same_page(tmp_path: Path) -> None:
    found = await evaluate(stars, cases("One", "Two"), model=executor({"Two": 5}))
    found.save(tmp_path / "report.jsonl")
    assert report_as_page(found, baseline=found) == report_as_page(found, baseline=tmp_path / "report.jsonl")


def test_the_verdict_of_the_gate_stands_above_all_and_failures_come_first() -> None:
    current = report(
        trial("good", 1), trial("bad", 1, "failed"), trial("also good", 1), trial("worse", 1, "error")
    )
    page = Parsed(report_as_page(current, gate=check_gate(current, at_least=0.8)))
    verdict = next(text for text in page.text_of("p") if text.startswith("The gate"))
    assert verdict.startswith("The gate: missed, pass rate 0.500, at least 0.8 asked\nthe pass rate is 0.5")
    assert page.all_of("p")[0] == {"class": "verdict", "data-change": "worse"}
    names = [text for text in page.text_of("th") if text in ("good", "bad", "also good", "worse")]
    assert names == ["bad", "worse", "good", "also good"]
    held = Parsed(report_as_page(current, gate=check_gate(current, at_least=0.4)))
    assert "The gate: passed, pass rate 0.500, at least 0.4 asked" in held.text
    assert held.all_of("p")[0]["data-change"] == "better"
    assert "The gate" not in Parsed(report_as_page(current, gate=check_gate(current))).text
