"""A control for each rule: a program that the rule saves, and the switch that turns the rule off.

With the rule, the lives of the program are as they should be. Without it, the oracle has to find what it is
there for, or the rule is proven by nothing. `test_generated_controls` runs them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.durable.service import lines_of

from .calls import DOUBTS, SILENT_DOUBTS
from .oracle import GeneratedLives, run_lives
from .programs import Branch, Call, CallKind, Node, Program, Shared, Value, numbered

Must = Literal["", "end", "refuse", "spare", "raise", "know", "say", "notice"]
"""What a life after the kill has to do beside what the oracle asks: come to the same end, refuse in the first
life, refuse there before the effect, raise, know about each effect, say which one it does not know about, or
notice that the log is gone."""


class Control(Struct, frozen=True, kw_only=True):
    """One rule.

    Args:
        rule: The rule.
        switch: The name of what is switched off; see `durable.switches`.
        program: The program of the first life.
        change: The program after it; None for the same one.
        kill_at: Where the first life is killed; None to let it end.
        found: The kinds of findings without the rule, one of which is enough.
        must: See `Must`.
        accident: What happens to the store in the first life; see `durable.program`.
        options: More arguments of the killed program.
    """

    rule: str
    switch: str
    program: Program
    found: frozenset[str]
    change: Program | None = None
    kill_at: KillPoint | None = None
    must: Must = ""
    accident: str = ""
    options: Mapping[str, bool] = {}


def _program(*parts: Node, delays: Mapping[str, int] | None = None) -> Program:
    return Program(numbered(Branch("sequence", parts)), delays=dict(delays or {}))


def _call(kind: CallKind, word: str = "ann", value: str = "text") -> Call:
    return Call(kind, Value(value, word))


def _other_call(rule: str, switch: str, first: Call, later: Call) -> Control:
    """A call that another one takes the place of, followed by an effect before which the life is killed."""
    return Control(
        rule=rule,
        switch=switch,
        program=_program(first, _call("look", "end"), _call("pay", "end")),
        change=_program(later, _call("look", "end"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2 if first.kind.startswith("pay") else 1),
        found=frozenset({"another's answer"}),
    )


_ORDERED = {"1:3": 60, "1:4": 1, "2:3": 1, "2:4": 60}
"""The first of two parts comes last in the first life, and first in the second one."""

_CATCHING_UP = {"1:4": 500, "1:7": 1, "1:9": 1, "2:4": 1, "2:7": 80}
"""The first item is slow in the first life, and the second one in the next life."""

_OVERTAKING = {"1:3": 40, "1:15": 20}
"""The answer of the first item is recorded first, and becomes durable when the second item has its result."""

_BEFORE_THE_SEAL = KillPoint(record=6)
"""Two effects are recorded, each with its beginning and its end, and nothing after them."""

_FIRST_ITEM = Branch("sequence", (_call("ask"), _call("pay blindly")))


def _steps(word: str) -> Branch:
    return Branch("sequence", (_call("pause"), _call("pay", word), _call("pause")))


CONTROLS: tuple[Control, ...] = (
    _other_call("the text of nh.step", "text", _call("step"), _call("step", "bob")),
    _other_call("what an f-string interpolates", "text", _call("formatted"), _call("formatted", "bob")),
    _other_call("dotted reads", "dotted", _call("dotted"), _call("dotted", "bob")),
    _other_call("dotted reads of self", "dotted", _call("of self"), _call("of self", "bob")),
    _other_call(
        "types of arguments", "stable digests", _call("ask", value="order"), _call("ask", value="invoice")
    ),
    _other_call("objects", "stable digests", _call("ask", value="row"), _call("ask", "bob", value="row")),
    _other_call("self", "self", _call("pay by method"), _call("pay by method", "bob")),
    _other_call(
        "registered identities",
        "registered identities",
        _call("ask", value="session"),
        _call("ask", "bob", value="session"),
    ),
    Control(
        rule="objects that nobody knows, in a strict store",
        switch="unknown objects",
        program=_program(_call("pay", value="connection")),
        options={"strict": True},
        must="refuse",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="objects that nobody knows, in other stores",
        switch="unknown objects",
        program=_program(_call("pay", value="connection")),
        options={"warns": True},
        must="refuse",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="calls that nothing tells apart",
        switch="ambiguity",
        program=_program(
            Branch("group", (_call("pay", value="connection"), _call("pay", "bob", value="connection")))
        ),
        must="refuse",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="digests of an earlier version",
        switch="versions",
        program=_program(_call("pay", value="order"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        accident="as_version_1",
        must="end",
        found=frozenset({"false alarm"}),
    ),
    Control(
        rule="calls that are new before recorded ones",
        switch="new calls",
        program=_program(_call("pay"), _call("look", "end")),
        change=_program(_call("step"), _call("pay"), _call("look", "end")),
        kill_at=_BEFORE_THE_SEAL,
        must="raise",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="calls that fail before what they had recorded",
        switch="failed calls",
        program=_program(_call("pay another way"), _call("look", "end")),
        change=_program(_call("pay another way", "bob"), _call("look", "end")),
        kill_at=KillPoint(record=4),
        must="raise",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="calls that are gone",
        switch="leftovers",
        program=_program(Branch("natural", (_call("pay"), _call("pay", "bob")))),
        change=_program(Branch("natural", (_call("pay"),))),
        kill_at=_BEFORE_THE_SEAL,
        found=frozenset({"lost"}),
    ),
    Control(
        rule="items that are gone",
        switch="leftovers",
        program=_program(Branch("map", (_call("pay"), _call("pay", "bob")))),
        change=_program(Branch("map", (_call("pay"),))),
        kill_at=_BEFORE_THE_SEAL,
        found=frozenset({"lost"}),
    ),
    Control(
        rule="what is left over at the end",
        switch="leftovers",
        program=_program(Branch("natural", (Branch("group", (_call("pay"), _call("pay", "bob"))),))),
        change=_program(Branch("natural", (Branch("group", (_call("pay"),)),))),
        kill_at=_BEFORE_THE_SEAL,
        found=frozenset({"lost"}),
    ),
    Control(
        rule="the hold before effects",
        switch="hold",
        program=_program(Branch("group", (_call("pay"),)), _call("pay", "end")),
        change=_program(Branch("group", (_call("pay", "bob"),)), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        found=frozenset({"lost", "late", "repeated"}),
    ),
    Control(
        rule="delivery in the order of the records",
        switch="delivery",
        program=_program(
            Shared("append", "map", (_call("ask"), _call("ask", "bob"))), _call("pay", "end"), delays=_ORDERED
        ),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised", "contradicted", "repeated"}),
    ),
    Control(
        rule="new answers in the order of their records",
        switch="departures",
        program=_program(
            Shared("append", "map", (_call("ask"), _call("pay", "bob"))),
            _call("pay", "end"),
            delays=_OVERTAKING,
        ),
        kill_at=KillPoint(mark="booking", nth=2),
        accident="slow",
        must="end",
        found=frozenset({"raised", "contradicted", "repeated"}),
    ),
    Control(
        rule="values of nh.journal",
        switch="values",
        program=_program(_call("pay with token"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised"}),
    ),
    Control(
        rule="values that nh.journal.decide keeps",
        switch="values",
        program=_program(_call("pay decided"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised"}),
    ),
    Control(
        rule="errors that were handled",
        switch="handled errors",
        program=_program(_call("pay after failure"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised"}),
    ),
    Control(
        rule="errors that ended a life",
        switch="errors of lives",
        program=_program(_call("pay"), _call("ask in vain"), _call("pay", "end")),
        accident="slow",
        must="end",
        found=frozenset({"wrong"}),
    ),
    Control(
        rule="nothing new once the program is known to have changed",
        switch="changed programs",
        program=_program(_call("pay forgiving"), _call("pay", "end")),
        change=_program(_call("pay forgiving", "bob"), _call("pay", "end")),
        kill_at=KillPoint(record=4),  # before it is recorded that the second effect begins
        must="raise",
        found=frozenset({"accepted", "lost"}),
    ),
    Control(
        rule="lives that diverged count for nothing",
        switch="diverged lives",
        program=_program(Branch("group", (_call("ask"),))),
        change=_program(Branch("group", (_call("ask", "bob"),))),
        kill_at=KillPoint(record=4),  # before it is recorded that the last effect begins
        found=frozenset({"stuck"}),
    ),
    Control(
        rule="deadlines that expired",
        switch="deadlines",
        program=_program(_call("pay after deadline"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised"}),
    ),
    Control(
        rule="recorded usage counts as it did, and once",
        switch="usage",
        program=_program(_call("pay with usage"), _call("pay", "end")),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised"}),
    ),
    Control(
        rule="orders of locks and actors",
        switch="orders",
        program=_program(
            Shared("mutex", "map", (_call("pause"), _call("pause", "bob"))),
            _call("pay", "end"),
            delays=_ORDERED,
        ),
        kill_at=KillPoint(mark="booking", nth=3),
        must="end",
        found=frozenset({"raised", "false alarm", "contradicted", "repeated"}),
    ),
    Control(
        rule="losers are driven as far as they came",
        switch="losers",
        program=_program(
            Shared(
                "losers", "map", (Branch("sequence", (_call("ask"), _call("pause"))), _call("ask", "bob"))
            ),
            _call("pay", "end"),
            delays={"1:4": 1, "1:5": 500, "1:6": 60, "2:5": 500, "3:5": 500},
        ),
        kill_at=KillPoint(mark="booking", nth=2),
        must="end",
        found=frozenset({"raised", "contradicted", "repeated"}),
    ),
    Control(
        rule="nothing new while records are left",
        switch="catching up",
        program=_program(Branch("tasks", (_FIRST_ITEM, _steps("ann"))), delays=_CATCHING_UP),
        change=_program(Branch("tasks", (_FIRST_ITEM, _steps("bob"))), delays=_CATCHING_UP),
        kill_at=KillPoint(mark="paused", nth=2),
        found=frozenset({"late"}),
    ),
    Control(
        rule="intents of calls that did not begin",
        switch="withdrawal",
        program=_program(Branch("map", (_call("pay blindly"), _call("crash"))), delays={"1:4": 8}),
        accident="slow",
        must="know",
        found=frozenset({"doubted"}),
    ),
    Control(
        rule="arguments that are changed in place",
        switch="changed arguments",
        program=_program(_call("pay and change")),
        must="refuse",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="results that can never be stored",
        switch="declared types",
        program=_program(_call("pay for code")),
        must="spare",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="effects outside of every run",
        switch="outside",
        program=_program(_call("pay outside")),
        must="refuse",
        found=frozenset({"accepted"}),
    ),
    Control(
        rule="durable results",
        switch="durable results",
        program=_program(_call("pay blindly"), _call("pay", "end")),
        kill_at=KillPoint(mark="returned"),
        accident="hold_results",
        must="know",
        found=frozenset({"doubted"}),
    ),
    Control(
        rule="the text of a doubt",
        switch="text of doubts",
        program=_program(_call("pay blindly"), _call("pay", "end")),
        kill_at=KillPoint(mark="booked"),
        must="say",
        found=frozenset({"unsaid"}),
    ),
    Control(
        rule="the mark of expected records",
        switch="expected records",
        program=_program(_call("pay"), _call("pay", "bob")),
        kill_at=KillPoint(mark="booking", nth=2),
        must="notice",
        found=frozenset({"repeated", "not noticed"}),
    ),
)


def findings_of(
    control: Control, killer: ProgramKiller, folder: Path, backend: str, *, without: str = ""
) -> dict[str, list[str]]:
    """Run the lives of a control's program, with or without a rule."""
    lives = GeneratedLives(killer, folder, backend, control.program, without=without, **control.options)
    if control.must in ("refuse", "spare"):
        life = lives.live()
        is_refused = bool(life.result and "raised" in life.result)
        made = lives.bookings if control.must == "spare" else []
        return {} if is_refused and not made else {"accepted": [f"{life}", *made]}
    if control.must == "notice":
        assert lives.live(control.kill_at).was_killed
        (folder / "runs.db-wal").unlink()
        life = lives.live()
        if life.result is None or "ended" in life.result:
            return {"not noticed": [f"{life}"]}
        return {}
    if control.accident:
        life = lives.live(control.kill_at, **{control.accident: True})
        assert life.was_killed or "the first life ends" in life.error
        life = lives.live()
        findings = lives.findings(life)
    else:
        findings = run_lives(lives, [control.kill_at] if control.kill_at else [], control.change)
    doubts, silent = lines_of(folder, DOUBTS), lines_of(folder, SILENT_DOUBTS)
    assert doubts or control.must != "say"
    more = {
        "doubted": doubts if control.must == "know" else [],
        "unsaid": silent if control.must == "say" else [],
        "raised": lives.raised if control.must == "end" else [],
        "accepted": ["nothing raised"] if control.must == "raise" and not lives.raised else [],
    }
    return {**findings, **{kind: found for kind, found in more.items() if found}}
