"""`permissions`: which calls a step may make, must ask for, or must not make.

In one set of permissions deny beats ask and ask beats allow; a call that no rule is about follows the set's
default. Of several sets in force the strictest counts, so a scope can only narrow what is permitted.

Permissions steer a model. They are no sandbox: what operators, properties, iteration or an import of the
program's own objects bring about is no call that they see, and Python has other ways to reach a function.
Isolate the process where that matters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from ...errors import NighthawkError
from ...runtime.events import Verdict
from .call import PermissionCall
from .free_calls import is_data_callable
from .rules import PermissionRule, RuleSource, checked_rules

__all__ = [
    "PermissionDecision",
    "Permissions",
    "added_permissions",
    "decide",
    "decide_for_any_arguments",
    "permissions",
]

_STRICTNESS: tuple[Verdict, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDecision:
    """The decision about a call.

    Args:
        verdict: What is to be done.
        rule: The rule that said so, as text; None for a default.
    """

    verdict: Verdict
    rule: str | None = None

    def __str__(self) -> str:
        return f"default: {self.verdict}" if self.rule is None else f"{self.verdict} rule {self.rule}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Permissions:
    """Permissions for calls. Made by `permissions`.

    Args:
        allow: The calls that are made.
        ask: The calls that people are asked about first.
        deny: The calls that are not made.
        default: What happens to all others.
    """

    allow: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    default: Verdict

    def __post_init__(self) -> None:
        if self.default not in get_args(Verdict):
            raise NighthawkError(f"default must be one of {get_args(Verdict)}, not {self.default!r}")
        for name, rules in self._by_strictness:
            object.__setattr__(self, name, checked_rules(name, rules))

    @property
    def may_ask(self) -> bool:
        """Whether there are calls that people are asked about."""
        return bool(self.ask) or self.default == "ask"

    @property
    def looks_at_names(self) -> bool:
        """Whether a rule that asks or denies is about names, so that any name of a function may matter."""
        return any(isinstance(each.target, str) for each in (*self.ask, *self.deny))

    @property
    def strict_builtins(self) -> tuple[object, ...]:
        """Callables of Python's own that rules for asking or denying name; others need no permission."""
        targets = (each.target for each in (*self.ask, *self.deny))
        return tuple(each for each in targets if not isinstance(each, str) and is_data_callable(each))

    def decide(self, call: PermissionCall, *, default: Verdict | None = None) -> PermissionDecision:
        """Decide about a call.

        Args:
            call: The call.
            default: What happens when no rule is about it; None for the default of the set.

        Raises:
            HookError: A predicate raised, or is async.
        """
        for verdict, rules in self._by_strictness:
            for rule in rules:
                if rule.matches(call, is_strict=verdict != "allow"):
                    return PermissionDecision(verdict=verdict, rule=str(rule))
        return PermissionDecision(verdict=default or self.default)

    def decide_for_any_arguments(
        self, call: PermissionCall, *, default: Verdict | None = None
    ) -> PermissionDecision:
        """The strictest decision about a call whose arguments are not known.

        Args:
            call: The call.
            default: What happens when no rule is about it; None for the default of the set.
        """
        return _strictest(self._possible(call, default or self.default))

    def _possible(self, call: PermissionCall, default: Verdict) -> Iterator[PermissionDecision]:
        """Yield the possible decisions about a call, depending on its arguments."""
        for verdict, rules in self._by_strictness:
            for rule in rules:
                if rule.is_about(call, is_strict=verdict != "allow"):
                    yield PermissionDecision(verdict=verdict, rule=str(rule))
                    if rule.is_unconditional:
                        return
        yield PermissionDecision(verdict=default)

    @property
    def _by_strictness(self) -> tuple[tuple[Verdict, tuple[PermissionRule, ...]], ...]:
        return ("deny", self.deny), ("ask", self.ask), ("allow", self.allow)


def permissions(
    *,
    allow: RuleSource | Iterable[RuleSource] = (),
    ask: RuleSource | Iterable[RuleSource] = (),
    deny: RuleSource | Iterable[RuleSource] = (),
    default: Verdict,
) -> Permissions:
    """Say which tools and functions the steps of an extent may call.

    They are for tools, and for what expressions and statements of the model call: functions, methods and
    classes of the program, and `open`, `eval` and the like. What computes with values of Python's own data
    types is permitted unless a rule gives it itself, `len` or `str.upper` for example; what it calls in turn,
    a `key` or `file.write` of `print`, is not.

    Args:
        allow: The calls that are made.
        ask: The calls that people are asked about first, each time, with all arguments.
        deny: The calls that are not made; the model is told.
        default: What happens to all others. The tools of the runtime, `nh_eval` and its like, are always
            allowed by default: what they call is decided about by itself. `eval`, `exec` and `compile` are
            denied by default, because nothing sees what their code calls.

    Raises:
        NighthawkError: A rule is none, or the default is none of the three.
    """
    return Permissions(
        allow=checked_rules("allow", allow),
        ask=checked_rules("ask", ask),
        deny=checked_rules("deny", deny),
        default=default,
    )


def added_permissions(
    outer: tuple[Permissions, ...], permissions: Permissions | None
) -> tuple[Permissions, ...]:
    """The permissions of outer extents, and one set more.

    Raises:
        NighthawkError: It is something else.
    """
    if permissions is None:
        return outer
    if not isinstance(cast("object", permissions), Permissions):
        raise NighthawkError(
            f"permissions must be what nighthawk_async.permissions gives, not {permissions!r}"
        )
    return (*outer, permissions)


def decide(
    sets: Sequence[Permissions], call: PermissionCall, *, default: Verdict | None = None
) -> PermissionDecision:
    """The strictest decision of several sets about a call.

    Args:
        sets: The sets in force, at least one.
        call: The call.
        default: What happens when no rule is about it; None for the default of each set.

    Raises:
        HookError: A predicate raised, or is async.
    """
    return _strictest(each.decide(call, default=default) for each in sets)


def decide_for_any_arguments(
    sets: Sequence[Permissions], call: PermissionCall, *, default: Verdict | None = None
) -> PermissionDecision:
    """The strictest decision of several sets about a call whose arguments are not known; see `decide`."""
    return _strictest(each.decide_for_any_arguments(call, default=default) for each in sets)


def _strictest(decisions: Iterable[PermissionDecision]) -> PermissionDecision:
    return max(decisions, key=lambda decision: _STRICTNESS.index(decision.verdict))
