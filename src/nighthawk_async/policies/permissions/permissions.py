"""`permissions`: the calls that a step may make, must ask for, or must not make.

In one set of permissions deny beats ask and ask beats allow; the default applies to calls that no rule
matches. Of several active sets the strictest verdict counts, so a scope can only narrow the permissions.

Permissions steer a model. They are no sandbox: they do not see the calls that operators, properties,
iteration or an import of the program's own objects make, and Python has other ways to reach a function.
Isolate the process where that matters.
"""

import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from ...errors import NighthawkError, ToolBoundaryError
from ...kernel.events import Verdict
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
        rule: The rule that decided, as text; None for a default.
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
        """Whether a call may need an approval."""
        return bool(self.ask) or self.default == "ask"

    @property
    def uses_names(self) -> bool:
        """Whether a rule that asks or denies matches names, so that all names of a function count."""
        return any(isinstance(each.target, str) for each in (*self.ask, *self.deny))

    @property
    def strict_builtins(self) -> tuple[object, ...]:
        """Python's own data callables that are targets of strict rules; others need no permission."""
        targets = (each.target for each in (*self.ask, *self.deny))
        return tuple(each for each in targets if not isinstance(each, str) and is_data_callable(each))

    def decide(self, call: PermissionCall, *, default: Verdict | None = None) -> PermissionDecision:
        """Decide about a call.

        Args:
            call: The call.
            default: The verdict when no rule matches; None for the default of the set.

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
        """Return the strictest decision about a call with unknown arguments.

        Args:
            call: The call.
            default: The verdict when no rule matches; None for the default of the set.
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
    """Make permissions: the tools and functions that the steps of a scope may call.

    They apply to tools, and to calls in the model's expressions and statements: functions, methods and
    classes of the program, and `open`, `eval` and the like. Python's own functions and methods of data, such
    as `len` or `str.upper`, are permitted unless a rule's target is the object itself, not its name. A
    callable that these call in turn, such as a `key` or the `file.write` of `print`, needs permission.

    Args:
        allow: The calls that are made.
        ask: The calls that people are asked about first, each time, with all arguments.
        deny: The calls that are not made; the model gets an error.
        default: The verdict for all others. Without a rule, the tools of the runtime, such as `nh_eval`, are
            always allowed, because the calls that they make are checked one by one; `eval`, `exec` and
            `compile` are always denied, because permissions do not see the calls in their code.

    Raises:
        NighthawkError: A rule is invalid, or the default is not a verdict.
    """
    return Permissions(
        allow=checked_rules("allow", allow),
        ask=checked_rules("ask", ask),
        deny=checked_rules("deny", deny),
        default=default,
    )


def added_permissions(
    inherited: tuple[Permissions, ...], permissions: Permissions | None
) -> tuple[Permissions, ...]:
    """Return the permissions of the parent and one more set.

    Raises:
        NighthawkError: The argument is not permissions.
    """
    if permissions is None:
        return inherited
    if not isinstance(cast("object", permissions), Permissions):
        raise NighthawkError(
            f"permissions must be what nighthawk_async.permissions gives, not {permissions!r}"
        )
    return (*inherited, permissions)


def decide(
    sets: Sequence[Permissions], call: PermissionCall, *, default: Verdict | None = None
) -> PermissionDecision:
    """Return the strictest decision of several sets about a call.

    Args:
        sets: The active sets, at least one.
        call: The call.
        default: The verdict when no rule matches; None for the default of each set.

    Raises:
        HookError: A predicate raised, or is async.
    """
    return _strictest(each.decide(call, default=default) for each in sets)


def decide_for_any_arguments(
    sets: Sequence[Permissions], call: PermissionCall, *, default: Verdict | None = None
) -> PermissionDecision:
    """Return the strictest decision of several sets about a call with unknown arguments; see `decide`."""
    return _strictest(each.decide_for_any_arguments(call, default=default) for each in sets)


def _strictest(decisions: Iterable[PermissionDecision]) -> PermissionDecision:
    return max(decisions, key=lambda decision: _STRICTNESS.index(decision.verdict))


_GO_ON = "Do not reach it in another way; go on without it, or end the block."


def refusal_of_call(call: PermissionCall, decision: PermissionDecision) -> ToolBoundaryError:
    """Return the error for a denied call."""
    return _refusal(f"{call.name} is not permitted ({decision})", _GO_ON)


def refusal_of_asking(call: PermissionCall) -> ToolBoundaryError:
    """Return the error for a call that needs an approval where the code cannot wait."""
    return _refusal(
        f"{call.name} needs an approval, which cannot be waited for inside a lambda, a function that is not "
        "async, a class or a generator expression",
        f"Call {call.name} directly.",
    )


def refusal_of_handing_over(call: PermissionCall, decision: PermissionDecision) -> ToolBoundaryError:
    """Return the error for passing a function to code that may call it."""
    return _refusal(
        f"{call.name} is not permitted to be handed to something that calls it ({decision})",
        _GO_ON if decision.verdict == "deny" else f"Call {call.name} directly.",
    )


def refusal_of_disguise(attribute: str, owner: object) -> ToolBoundaryError:
    """Return the error for assigning an attribute by which permissions identify functions."""
    return _refusal(
        f"{attribute} of a {type(owner).__name__} is not assigned: permissions know functions by it", _GO_ON
    )


def refusal_of_part(attribute: str, owner: object) -> ToolBoundaryError:
    """Return the error for reading an attribute that may lead to what decides."""
    return _refusal(f"{attribute} of {_title(owner)} is not read under permissions", _USE_PUBLIC)


def refusal_of_assignment(attribute: str, owner: object) -> ToolBoundaryError:
    """Return the error for changing an attribute of what the code has not made."""
    return _refusal(
        f"{attribute} of {_title(owner)} is not changed under permissions",
        "Keep values in variables, or in objects of classes of yours.",
    )


_USE_PUBLIC = "Use its public attributes and methods."


def _title(owner: object) -> str:
    if isinstance(owner, types.ModuleType):
        return f"the module {types.ModuleType.__getattribute__(owner, '__dict__').get('__name__')}"
    return f"the class {owner.__qualname__}" if isinstance(owner, type) else f"a {type(owner).__name__}"


def refusal_after_asking(call: PermissionCall, error: NighthawkError) -> ToolBoundaryError:
    """Return the error for a call that was not approved."""
    text = str(error)
    message = text if text.startswith(f"{call.action}: ") else f"{call.action}: {text}"
    return _refusal(message, _ask_again(call) if isinstance(error, ArgumentsChangedError) else _GO_ON)


def refusal_of_change(call: PermissionCall) -> ToolBoundaryError:
    """Return the error for an object whose description has changed since people were asked."""
    return _refusal(f"{call.action}: the object is no longer what was approved", _ask_again(call))


def _ask_again(call: PermissionCall) -> str:
    return f"Call {call.name} again to ask for another approval."


def _refusal(message: str, guidance: str) -> ToolBoundaryError:
    return ToolBoundaryError(kind="oversight", message=message, guidance=guidance)
