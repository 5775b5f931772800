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

from ...errors import NighthawkError, ToolBoundaryError
from ...runtime.events import Verdict
from ..people.errors import ArgumentsChangedError
from .call import PermissionCall
from .free_calls import is_data_callable
from .rules import PermissionRule, RuleSource, checked_rules

_STRICTNESS: tuple[Verdict, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDecision:
    """The decision about a call.

    Args:
        verdict: The verdict.
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
        default: The verdict for all others.
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
            default: The verdict when no rule is about it; None for the default of the set.

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
            default: The verdict when no rule is about it; None for the default of the set.
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
        default: The verdict for all others. The tools of the runtime, `nh_eval` and its like, are always
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
        default: The verdict when no rule is about it; None for the default of each set.

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


_GO_ON = "Do not reach it in another way; go on without it, or end the block."


def refusal_of_call(call: PermissionCall, decision: PermissionDecision) -> ToolBoundaryError:
    """The call is denied."""
    return _refusal(f"{call.name} is not permitted ({decision})", _GO_ON)


def refusal_of_asking(call: PermissionCall) -> ToolBoundaryError:
    """People have to be asked, but the code cannot wait for them where the call stands."""
    return _refusal(
        f"{call.name} needs an approval, which cannot be waited for inside a lambda, a function that is not "
        "async, a class or a generator expression",
        f"Call {call.name} directly.",
    )


def refusal_of_handing_over(call: PermissionCall, decision: PermissionDecision) -> ToolBoundaryError:
    """The function would be called by others."""
    return _refusal(
        f"{call.name} is not permitted to be handed to something that calls it ({decision})",
        _GO_ON if decision.verdict == "deny" else f"Call {call.name} directly.",
    )


def refusal_of_disguise(attribute: str, owner: object) -> ToolBoundaryError:
    """Another value of the attribute would make a function pass for another one."""
    return _refusal(
        f"{attribute} of a {type(owner).__name__} is not assigned: permissions know functions by it", _GO_ON
    )


def refusal_after_asking(call: PermissionCall, error: NighthawkError) -> ToolBoundaryError:
    """People were asked, in vain."""
    text = str(error)
    message = text if text.startswith(f"{call.action}: ") else f"{call.action}: {text}"
    return _refusal(message, _ask_again(call) if isinstance(error, ArgumentsChangedError) else _GO_ON)


def refusal_of_change(call: PermissionCall) -> ToolBoundaryError:
    """The object shows itself in another way than when people were asked."""
    return _refusal(f"{call.action}: the object is no longer what was approved", _ask_again(call))


def _ask_again(call: PermissionCall) -> str:
    return f"Call {call.name} again to ask for another approval."


def _refusal(message: str, guidance: str) -> ToolBoundaryError:
    return ToolBoundaryError(kind="oversight", message=message, guidance=guidance)
