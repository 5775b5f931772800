"""`rule`: the calls that a permission applies to.

In doubt the strict side wins: an argument that cannot be compared with a pattern matches `ask` and `deny`,
and does not match `allow`.
"""

import functools
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from numbers import Number
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from ...command_risks import RISKS, Risk, risks_of_arguments
from ...errors import HookError, NighthawkError
from ...kernel.commands import is_awaitable
from ...signatures import read_signature
from ...values.error_text import describe_error
from ..people.plain_data import as_data, is_plain
from .call import PermissionCall, without_partials
from .callables import called_function, function_title, is_same_callable, layers_of, own_attributes
from .equivalents import constructors_of


def strict_targets(target: object) -> tuple[object, ...]:
    """Return the target of a rule, the functions it wraps, and the constructors of a class."""
    targets = [target, *constructors_of(called_function(target))]
    method = target if isinstance(target, types.MethodType) else None
    inner = target if method is None else method.__func__
    for _ in range(len(layers_of(target))):
        inner = None if isinstance(inner, type) else own_attributes(inner).get("__wrapped__")
        if not callable(inner):
            break
        targets.append(inner if method is None else types.MethodType(inner, method.__self__))
    return tuple(targets)


def may_be(targets: tuple[object, ...], call: PermissionCall) -> bool:
    """Whether a call may run one of these targets.

    Args:
        targets: The targets of a rule.
        call: The call.
    """
    layers = (*call.layers, *call.declared)
    return any(
        any(is_same_callable(target, layer) for layer in layers)
        or (isinstance(target, functools.partial) and _may_be_partial(cast("Any", target), layers, call))
        or (not call.has_arguments and _may_be_bound(cast("object", target), call))
        for target in targets
    )


def _may_be_bound(target: object, call: PermissionCall) -> bool:
    """Whether the object of the called method is unknown, so that it may be the object of this target."""
    if call.method is not None:
        return call.method == getattr(target, "__name__", None)
    if isinstance(target, types.MethodType):
        is_bound = any(isinstance(layer, types.MethodType) for layer in call.layers)
        return not is_bound and any(layer is target.__func__ for layer in call.layers)
    if isinstance(target, types.BuiltinFunctionType | types.MethodWrapperType):
        unbound = getattr(type(cast("object", target.__self__)), target.__name__, None)
        return any(layer is unbound for layer in call.layers)
    return False


def _may_be_partial(
    target: "functools.partial[Any]", layers: tuple[object, ...], call: PermissionCall
) -> bool:
    """Whether the function of a partial is called with the arguments that the partial fixes."""
    function, args, kwargs = without_partials(target, (), {})
    if not any(is_same_callable(function, layer) for layer in layers):
        return False
    if not call.has_arguments or not call.has_named_arguments:
        return True
    try:
        fixed: Mapping[str, object] = read_signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # some functions written in C have no signature
        return True
    return all(name not in call.arguments or _is_same(call.arguments[name], fixed[name]) for name in fixed)


def _is_same(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # the program's comparison may raise anything; in doubt they are equal
        return True


Predicate: TypeAlias = Callable[[PermissionCall], object]
"""Condition of a rule: whether it applies to a call."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PermissionRule:
    """A rule for calls. Made by `rule`.

    Args:
        target: A name, a pattern of names, or a callable.
        patterns: The patterns of arguments, by name.
        when: The condition; None for every call.
        risks: The risks of the command that is run; None for every call.
    """

    target: str | Callable[..., object]
    patterns: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    when: Predicate | None = None
    risks: frozenset[Risk] | None = None
    _targets: tuple[object, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        targets = () if isinstance(self.target, str) else strict_targets(self.target)
        object.__setattr__(self, "_targets", targets)

    def __str__(self) -> str:
        name = self.target if isinstance(self.target, str) else function_title(self.target)
        details = [f"{name}={_pattern_text(pattern)}" for name, pattern in self.patterns.items()]
        if self.risks is not None:
            details.append(f"risk={'|'.join(sorted(self.risks))}")
        if self.when is not None:
            details.append(f"when={function_title(self.when)}")
        return f"{name}({', '.join(details)})" if details else name

    @property
    def is_unconditional(self) -> bool:
        """Whether it applies to every call of its target."""
        return not self.patterns and self.when is None and self.risks is None

    def is_about(self, call: PermissionCall, *, is_strict: bool) -> bool:
        """Whether its target is called, with any arguments.

        Args:
            call: The call.
            is_strict: Whether the rule asks or denies, so that in doubt it applies.
        """
        target = self.target
        if isinstance(target, str):
            names = (*call.names, *call.other_names) if is_strict else call.names
            return any(fnmatchcase(name, target) for name in names) or (
                is_strict and call.method is not None and fnmatchcase(call.method, target.rpartition(".")[2])
            )
        if not is_strict:
            return any(is_same_callable(target, layer) for layer in call.layers)
        return may_be(self._targets, call)

    def matches(self, call: PermissionCall, *, is_strict: bool) -> bool:
        """Whether it applies to a call.

        Args:
            call: The call.
            is_strict: Whether the rule asks or denies, so that in doubt it applies.

        Raises:
            HookError: A predicate or a comparison raised, or is async.
        """
        return (
            self.is_about(call, is_strict=is_strict)
            and all(
                self._fits(name, pattern, call, is_strict=is_strict)
                for name, pattern in self.patterns.items()
            )
            and (self.risks is None or _has_risk(call, self.risks, is_strict=is_strict))
            and (self.when is None or self._passes(self.when, call, is_strict=is_strict))
        )

    def _fits(self, name: str, pattern: object, call: PermissionCall, *, is_strict: bool) -> bool:
        if name not in call.arguments:
            return is_strict and not call.has_named_arguments
        if not name.isdigit() and _has_positions(call):
            return is_strict  # the position of the named argument is unknown
        value = call.arguments[name]
        if not is_plain(value):
            value = as_data(value)
            if not is_strict or not is_plain(value):
                return is_strict
        if isinstance(pattern, str):
            return self._ask(
                lambda given: _text_fits(given, pattern=pattern, is_strict=is_strict), value, call
            )
        if callable(pattern) and not isinstance(pattern, type):
            return self._ask(pattern, value, call)
        return self._ask(lambda subject: subject == pattern, value, call)

    def _passes(self, when: Predicate, call: PermissionCall, *, is_strict: bool) -> bool:
        if not all(map(is_plain, call.arguments.values())):
            return is_strict
        return self._ask(when, call, call)

    def _ask(self, predicate: Callable[[Any], object], subject: object, call: PermissionCall) -> bool:
        try:
            answer = predicate(subject)
            if not is_awaitable(answer):
                return bool(answer)
        except (Exception, SystemExit) as error:  # after any error the call is not made
            what = f"permission rule {self} failed for {call.name}"
            failed = HookError(f"{what}: {describe_error(error)}", hook=str(self))
            raise failed.without_content(f"{what}: {type(error).__name__}") from error
        if inspect.iscoroutine(answer):
            answer.close()
        raise HookError(f"permission rule {self} has an async predicate; it must be `def`", hook=str(self))


RuleSource: TypeAlias = str | Callable[..., object] | PermissionRule
"""A name, a pattern of names, a callable, or a rule."""


def rule(
    target: str | Callable[..., object],
    /,
    *,
    when: Predicate | None = None,
    risk: Risk | Collection[Risk] | None = None,
    **arguments: object,
) -> PermissionRule:
    """Make a rule: the calls that a permission applies to.

    Example:
        rule("send_mail", to="*@example.com")
        rule("shop.orders.*", when=lambda call: call.arguments["amount"] < 100)
        rule("*.shell", risk="destructive")

    Args:
        target: A name, with `*`, `?` and `[…]` as wildcards: `send_mail`, `Mailer.*`, `shop.orders.*`; or a
            callable.
        when: A function that returns whether the rule applies to the call; called last.
        risk: The risk, or the risks, of the shell command in the argument `command`: `destructive`,
            `outside_workspace`, `network`, `pipe_to_shell`, `credential_read`, `privilege`,
            `package_install`, `history_rewrite`, `process_kill`, `unknown` for what cannot be read from the
            command, `none` for a command without a risk. For `ask` and `deny`, one of them is enough, and
            `unknown` counts as each. For `allow`, the command must have no other one.
        arguments: The patterns of arguments. A text is a case-sensitive pattern for the argument as text; of
            the values in a list, all must match for `allow`, one for `ask` and `deny`. A function returns
            whether an argument matches. Any other pattern must be equal to the argument. A value that may
            differ from the data it shows, such as an `int` subclass with its own comparison, does not match
            for `allow`.

    Raises:
        NighthawkError: The target is neither a name nor callable, the predicate is not callable, or there is
            no such risk.
    """
    if when is not None and not callable(cast("object", when)):
        raise NighthawkError(f"when must be a function of a call, not {when!r}")
    patterns, risks = MappingProxyType(arguments), None if risk is None else _checked_risks(risk)
    return PermissionRule(target=_checked_target(target), patterns=patterns, when=when, risks=risks)


def checked_rules(name: str, rules: RuleSource | Iterable[RuleSource]) -> tuple[PermissionRule, ...]:
    """Return an argument of `permissions` as rules.

    Args:
        name: The name of the argument, for the error.
        rules: The given rule or rules.

    Raises:
        NighthawkError: One of them is not a rule.
    """
    given = (rules,) if isinstance(rules, str | PermissionRule) or callable(rules) else rules
    if not isinstance(cast("object", given), Iterable) or isinstance(given, Mapping):
        raise NighthawkError(f"{name} must be a list of rules, not {rules!r}")
    return tuple(
        each if isinstance(each, PermissionRule) else PermissionRule(target=_checked_target(each))
        for each in given
    )


def _checked_target(target: object) -> str | Callable[..., object]:
    if isinstance(target, str) and target:
        return target
    if not callable(target):
        raise NighthawkError(f"A rule is about a name, or something that can be called, not {target!r}")
    if getattr(target, "__name__", None) == "<lambda>":
        raise NighthawkError("A rule is not about a lambda; a predicate is given as rule(…, when=…)")
    return target


def _checked_risks(risk: Risk | Collection[Risk]) -> frozenset[Risk]:
    given: list[Any] = [*risk] if isinstance(risk, list | tuple | set | frozenset) else [risk]
    if not given or any(type(each) is not str or each not in RISKS for each in given):
        raise NighthawkError(f"A risk of a command is one of {', '.join(RISKS)}, not {risk!r}")
    return frozenset(given)


def _has_risk(call: PermissionCall, risks: frozenset[Risk], *, is_strict: bool) -> bool:
    found = risks_of_arguments(call.arguments)
    if found is None:  # no command is known
        return is_strict
    if is_strict:
        return "unknown" in found or not found.isdisjoint(risks)
    return found <= risks


def _has_positions(call: PermissionCall) -> bool:
    """Whether some arguments are named by their positions."""
    return not call.has_named_arguments and any(name.isdigit() for name in call.arguments)


def _text_fits(value: object, pattern: str, *, is_strict: bool) -> bool:
    """Whether a value, as text, matches a pattern."""
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("Iterable[object]", value)
        fits = (_text_fits(item, pattern, is_strict=is_strict) for item in items)
        return any(fits) if is_strict else all(fits)
    if isinstance(value, Enum):
        return _text_fits(value.value, pattern, is_strict=is_strict)
    if isinstance(value, str):
        return fnmatchcase(str.__str__(value), pattern)  # not the `__str__` of a subclass
    if value is None or isinstance(value, Number | PurePath):
        return fnmatchcase(str(value), pattern)
    return is_strict


def _pattern_text(pattern: object) -> str:
    is_function = callable(pattern) and not isinstance(pattern, type)
    return function_title(pattern) if is_function else repr(pattern)
