"""Sets of permissions: deny beats ask beats allow, and of several sets the strictest counts."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.policies.permissions.call import CallArguments, PermissionCall, describe_call
from nighthawk_async.policies.permissions.permissions import (
    Permissions,
    Verdict,
    added_permissions,
    decide,
    decide_for_any_arguments,
    permissions,
)
from nighthawk_async.policies.permissions.rules import PermissionRule, rule
from tests.cases import every

VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")


def send_mail(to: str) -> None: ...


def call_to(to: str) -> PermissionCall:
    return describe_call(send_mail, CallArguments(values={"to": to}, given=frozenset({"to"})))


@every("default", VERDICTS)
@every(
    "rules, verdict, by",
    [
        ({}, None, None),
        ({"allow": "send_mail"}, "allow", "send_mail"),
        ({"ask": "send_mail"}, "ask", "send_mail"),
        ({"deny": "send_mail"}, "deny", "send_mail"),
        ({"allow": "send_mail", "ask": "*"}, "ask", "*"),
        ({"allow": "send_mail", "deny": "send_*"}, "deny", "send_*"),
        ({"ask": "send_mail", "deny": ["other", "*mail"]}, "deny", "*mail"),
        ({"allow": send_mail, "ask": send_mail, "deny": send_mail}, "deny", "send_mail"),
        ({"deny": rule("send_mail", to="eve*")}, None, None),
        (
            {"deny": rule("send_mail", to="eve*"), "ask": rule("send_mail", to="ada")},
            "ask",
            "send_mail(to='ada')",
        ),
        ({"allow": ["other", rule("*", to="a*")], "ask": "other"}, "allow", "*(to='a*')"),
    ],
)
def test_deny_beats_ask_beats_allow_beats_the_default(
    rules: dict[str, Any], verdict: Verdict | None, by: str | None, default: Verdict
) -> None:
    decision = permissions(**rules, default=default).decide(call_to("ada"))
    assert decision.verdict == (verdict or default)
    assert decision.rule == by


@pytest.mark.parametrize("outer", VERDICTS)
@pytest.mark.parametrize("inner", VERDICTS)
def test_the_strictest_of_two_sets_counts(outer: Verdict, inner: Verdict) -> None:
    sets = [permissions(**{outer: "send_mail"}, default="allow"), permissions(default=inner)]  # pyright: ignore[reportArgumentType]
    assert decide(sets, call_to("ada")).verdict == max(outer, inner, key=VERDICTS.index)


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ({"allow": "send_mail"}, "allow"),
        ({"allow": rule("send_mail", to="ada")}, "ask"),
        ({"allow": rule("send_mail", when=bool)}, "ask"),
        ({"allow": "send_mail", "deny": rule("send_mail", to="eve*")}, "deny"),
        ({"allow": "send_mail", "ask": rule("send_mail", when=bool)}, "ask"),
        ({}, "ask"),
    ],
)
def test_for_arguments_that_are_not_known_the_strictest_decision_counts(
    rules: dict[str, Any], verdict: Verdict
) -> None:
    assert decide_for_any_arguments([permissions(**rules, default="ask")], call_to("ada")).verdict == verdict


@pytest.mark.parametrize(
    ("rules", "may_ask"),
    [({"default": "allow"}, False), ({"default": "ask"}, True), ({"default": "deny", "ask": "x"}, True)],
)
def test_it_is_known_whether_people_may_be_asked(rules: dict[str, Any], may_ask: bool) -> None:
    assert permissions(**rules).may_ask == may_ask


@pytest.mark.parametrize("default", ["yes", None, True])
def test_the_default_is_declared_and_is_a_verdict(default: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="default must be one of"):
        permissions(default=default)
    with pytest.raises(TypeError, match="default"):
        permissions()  # pyright: ignore[reportCallIssue]


def test_permissions_are_added_to_those_in_force() -> None:
    outer, inner = permissions(default="allow"), permissions(default="ask")
    assert added_permissions((outer,), None) == (outer,)
    assert added_permissions((outer,), inner) == (outer, inner)
    with pytest.raises(nh.NighthawkError, match="permissions must be what"):
        added_permissions((), {"deny": "x"})  # pyright: ignore[reportArgumentType]


def made_rule(target: str | Callable[..., object], to: str | None) -> PermissionRule:
    return rule(target) if to is None else rule(target, to=to)


TARGETS: st.SearchStrategy[Any] = st.sampled_from(["send_mail", "send_*", "*", "other", send_mail])
RULES = st.lists(st.builds(made_rule, TARGETS, st.sampled_from([None, "ada", "e*", "bob"])), max_size=2)
SETS = st.builds(permissions, allow=RULES, ask=RULES, deny=RULES, default=st.sampled_from(VERDICTS))


def test_a_rule_about_some_arguments_leaves_the_others_to_the_default() -> None:
    careful = permissions(ask=[rule("send_mail", to="e*")], default="deny")
    assert decide_for_any_arguments([careful], call_to("eve")).verdict == "deny"


@given(sets=st.lists(SETS, min_size=1, max_size=4), to=st.sampled_from(["ada", "eve", "cy"]))
def test_a_decision_is_never_less_strict_than_that_of_any_set(sets: list[Permissions], to: str) -> None:
    call = call_to(to)
    strictness = VERDICTS.index(decide(sets, call).verdict)
    assert strictness == max(VERDICTS.index(each.decide(call).verdict) for each in sets)
    assert strictness <= VERDICTS.index(decide_for_any_arguments(sets, call).verdict)
