"""Calls as permission rules see them."""

import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from ...kernel.events import CallKind
from ...signatures import read_signature
from .callables import (
    faithfully_wrapped,
    is_own_method,
    layers_of,
    names_of,
    proven_layers_of,
    proven_names_of,
    supplied_by,
)
from .declared_methods import borrowed_by, declared_by, declared_call, is_callable_object, title_of
from .equivalents import called_method, class_names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallArguments:
    """The arguments of a call.

    Args:
        values: The values by parameter name, defaults included. Further keyword arguments have their own
            names, prefixed with `**` when another argument has the same name; unnamed positional arguments
            have their positions, "0", "1".
        given: The names of the arguments that the call gives, without defaults.
        are_named: Whether the names of all arguments are known.
    """

    values: Mapping[str, Any]
    given: frozenset[str]
    are_named: bool = True


_NO_PLACEHOLDER = object()
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MAX_PARTIALS = 1000
NO_ARGUMENTS = CallArguments(values=MappingProxyType({}), given=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PermissionCall:
    """A call about to be made.

    Args:
        name: The name of the called tool or function, `send_mail` or `Mailer.send`.
        kind: Whether it is a tool or a function.
        arguments: The arguments by parameter name, defaults included.
        callable: The object that is called; None for a tool of the runtime.
        names: The own names of the tool or function; a name without a module or class is listed only when it
            refers to the function in the program.
        other_names: Other names of the function: of variables, of modules that export it, and of its tool.
            The model may have chosen them, so they count for `ask` and `deny` only; they are empty when no
            such rule matches names.
        given: The names of the arguments that the call gives, without defaults.
        has_named_arguments: Whether the names of all arguments are known.
        receiver: The description, for people, of the method's object or the called object; None when it
            has no useful description.
        unclear_receiver: That object, when its description may fit other objects too.
        layers: The object that is called, and the callables that it wraps.
        declared: The methods that run when an object or class is called, and the calls that are equivalent.
            The model may have chosen them, so they count for `ask` and `deny` only.
        has_arguments: Whether the arguments are known; for a callable passed as an argument they are not.
        method: The name of the method when its object is unknown; otherwise None.
        definition_digest: Returns the definition of a tool that comes from elsewhere, as it is by now, with
            its digest; None for other functions.
    """

    name: str
    kind: CallKind
    arguments: Mapping[str, Any]
    callable: Callable[..., object] | None
    names: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    has_named_arguments: bool = True
    receiver: str | None = None
    unclear_receiver: object | None = field(default=None, repr=False)
    layers: tuple[object, ...] = field(default=(), repr=False)
    declared: tuple[object, ...] = field(default=(), repr=False)
    has_arguments: bool = True
    method: str | None = None
    definition_digest: Callable[[], object] | None = None

    @property
    def action(self) -> str:
        """The action to approve: the name of the call, and the object of a method."""
        return self.name if self.receiver is None else f"{self.name} of {self.receiver}"


def describe_call(
    function: Callable[..., object],
    arguments: CallArguments,
    *,
    kind: CallKind = "function",
    tool_name: str | None = None,
    other_names: tuple[str, ...] = (),
    is_own_name: Callable[[str], bool] | None = None,
    comes_to: tuple[object, ...] = (),
) -> PermissionCall:
    """Return the call of a function, as rules see it.

    Args:
        function: The function that is called.
        arguments: Its arguments.
        kind: Whether it is called as a tool or as a function.
        tool_name: The name of the tool; None for a function.
        other_names: Other names of the function.
        is_own_name: Returns whether a name without a module or class refers to the function in the program;
            None for always.
        comes_to: The equivalents of the call; see `equivalents`.
    """
    names = proven_names_of(function)
    if is_own_name is not None:
        meant = tuple(name for name in names if "." in name or is_own_name(name))
        names, other_names = meant, (*names, *other_names)
    others = (*borrowed_by(function), *comes_to)
    other_names = (
        *other_names,
        *names_of(function),
        *class_names(function),
        *(name for each in others for name in names_of(each)),
    )
    return PermissionCall(
        name=tool_name or title_of(function),
        kind=kind,
        arguments=arguments.values,
        callable=function,
        names=names if tool_name is None else (tool_name, *names),
        other_names=other_names,
        given=arguments.given,
        has_named_arguments=arguments.are_named,
        layers=proven_layers_of(function),
        declared=(*layers_of(function), *declared_by(function), *comes_to),
        has_arguments=arguments is not NO_ARGUMENTS,
        method=called_method(function),
        definition_digest=_definition_digest_of(function),
    )


def _definition_digest_of(function: object) -> Callable[[], object] | None:
    """Return what tells a function's definition, where that may change; see `ForeignTool`."""
    for layer in layers_of(function):
        inner = layer.__func__ if isinstance(layer, types.MethodType) else layer
        if isinstance(inner, types.FunctionType) and "definition_digest" in vars(inner):
            return cast("Callable[[], object]", vars(inner)["definition_digest"])
    return None


def arguments_of(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> CallArguments:
    """Return the arguments of a call, by parameter name.

    The parameters are those of the called function, even if it wraps another one: a wrapper may pass on other
    arguments. Arguments that a wrapper takes as `*args` have no names.

    Args:
        function: The function that is called.
        args: The positional arguments.
        kwargs: The keyword arguments.

    Raises:
        TypeError: The function cannot be called with them.
    """
    objects: list[Callable[..., object]] = []
    while True:
        function, args, kwargs = without_partials(function, args, kwargs)
        if isinstance(function, types.MethodType) and not is_own_method(function):
            function, args = function.__func__, (function.__self__, *args)
        elif isinstance(function, types.MethodWrapperType) and function.__name__ == "__call__":
            function = cast("Callable[..., object]", function.__self__)
        elif is_callable_object(function):
            declared = declared_call(function)
            if declared is None:
                return _unnamed(args, kwargs)
            objects.append(function)
            function = declared
        else:
            break
    supplied = supplied_by(function)
    function = faithfully_wrapped(function)
    try:
        signature = read_signature(_without_claims(function), follow_wrapped=False)
        signature = _without_parameters(signature, supplied)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return _unnamed(args, kwargs)
    are_others = any(_may_hand_on_others(each, signature) for each in (function, *objects))
    return _bound(signature, args, kwargs, are_named=not are_others)


def without_partials(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[Callable[..., object], tuple[object, ...], Mapping[str, object]]:
    """Return the callable behind `functools.partial`, and all arguments.

    Raises:
        RecursionError: A partial contains itself.
    """
    for _ in range(_MAX_PARTIALS):
        if not isinstance(function, functools.partial):
            return function, args, kwargs
        whole = cast("functools.partial[object]", function)
        function, args, kwargs = whole.func, _with_fixed(whole.args, args), {**whole.keywords, **kwargs}
    raise RecursionError(f"more than {_MAX_PARTIALS} partials within each other")


def _bound(
    signature: inspect.Signature,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    *,
    are_named: bool,
) -> CallArguments:
    """Return the arguments by parameter name; further keyword arguments get names that are not taken."""
    given = dict(signature.bind(*args, **kwargs).arguments)
    kinds = {each.kind: name for name, each in signature.parameters.items()}
    further = cast("Mapping[str, object]", given.pop(kinds.get(inspect.Parameter.VAR_KEYWORD, ""), {}))
    several = kinds.get(inspect.Parameter.VAR_POSITIONAL, "")
    if not are_named and several in given:
        unnamed = cast("tuple[object, ...]", given.pop(several))
        given.update((str(place), value) for place, value in enumerate(unnamed, len(args) - len(unnamed)))
    defaults = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if parameter.default is not parameter.empty
    }
    taken = {*given, *signature.parameters} - {kinds.get(inspect.Parameter.VAR_KEYWORD)}
    given.update(_with_other_names(further, taken))
    return CallArguments(
        values=MappingProxyType({**defaults, **given}), given=frozenset(given), are_named=are_named
    )


def _with_other_names(further: Mapping[str, object], taken: Collection[str]) -> dict[str, object]:
    """Return further keyword arguments; one whose name is taken, `to`, becomes `**to`."""
    named = {name: value for name, value in further.items() if name not in taken}
    for name, value in further.items():
        if name in taken:
            while name in taken or name in named:
                name = f"**{name}"
            named[name] = value
    return named


def _without_claims(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function without attributes that claim other parameters than its code has."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        return types.MethodType(_without_claims(function.__func__), function.__self__)
    if isinstance(function, types.FunctionType):
        bare = types.FunctionType(
            function.__code__, function.__globals__, None, function.__defaults__, function.__closure__
        )
        bare.__kwdefaults__ = function.__kwdefaults__
        return bare
    return function


def _without_parameters(signature: inspect.Signature, names: frozenset[str]) -> inspect.Signature:
    """Return a signature without some parameters, unless arguments would then belong to others."""
    kept = [each for each in signature.parameters.values() if each.name not in names]
    positional = [each.name for each in signature.parameters.values() if each.kind in _POSITIONAL]
    are_last = positional[: len(positional) - sum(name in names for name in positional)]
    is_shifted = any(name in names for name in are_last) or (
        len(are_last) < len(positional) and any(each.kind is each.VAR_POSITIONAL for each in kept)
    )
    return signature if is_shifted else signature.replace(parameters=kept)


def _may_hand_on_others(function: Callable[..., object], signature: inspect.Signature) -> bool:
    """Whether it takes any arguments and wraps a function with other parameters."""
    if not any(
        each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in signature.parameters.values()
    ):
        return False
    try:
        return _forms(read_signature(function)) != _forms(signature)
    except (TypeError, ValueError):
        return True


def _forms(signature: inspect.Signature) -> list[tuple[str, object]]:
    return [(name, parameter.kind) for name, parameter in signature.parameters.items()]


def _with_fixed(fixed: tuple[object, ...], args: tuple[object, ...]) -> tuple[object, ...]:
    """Return the positional arguments of a partial's function; since Python 3.14 some may be placeholders."""
    placeholder = getattr(functools, "Placeholder", _NO_PLACEHOLDER)
    left = iter(args)
    filled = [next(left, each) if each is placeholder else each for each in fixed]
    return (*filled, *left)


def _unnamed(args: tuple[object, ...], kwargs: Mapping[str, object]) -> CallArguments:
    values = {str(position): value for position, value in enumerate(args)}
    values.update(_with_other_names(kwargs, values.keys()))
    return CallArguments(values=MappingProxyType(values), given=frozenset(values), are_named=not args)
