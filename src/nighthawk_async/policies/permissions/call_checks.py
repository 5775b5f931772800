"""Decisions about the calls in a step's code, and about callables that it passes to other code."""

import builtins
import collections
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Union, cast

from ...errors import HookError
from ...kernel.context import StepContext, functions_in
from ...kernel.events import Verdict
from ...kernel.tools import ToolScope
from ...values.annotation_texts import evaluates_items
from .call import NO_ARGUMENTS, CallArguments, PermissionCall, arguments_of, describe_call, without_partials
from .callables import called_function, is_same_callable, module_of, own_attributes
from .declared_methods import borrowed_by, declared_by, smuggled_by
from .equivalents import equivalents, unbound_builtin
from .free_calls import (
    DATA_MODULES,
    assigned_by,
    called_by_name,
    calls_its_arguments,
    is_data_callable,
    only_inspects,
    removed_by,
)
from .permissions import (
    PermissionDecision,
    Permissions,
    decide,
    decide_for_any_arguments,
    refusal_of_assignment,
    refusal_of_call,
    refusal_of_disguise,
    refusal_of_handing_over,
    refusal_of_part,
)
from .protected_parts import (
    MATCHED,
    VARIABLES,
    are_public,
    is_fixed,
    is_protected,
    is_table_of_process,
    names_a_part,
    note_class,
    read_by,
    reads_by_name,
    sees_everything,
)
from .receivers import StepNames

_EMPTY: dict[str, object] = {}
_VIEWS: tuple[type, ...] = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_CONTAINERS: tuple[type, ...] = (list, tuple, set, frozenset, dict, collections.deque, *_VIEWS)
_TYPES: tuple[Any, ...] = (types.GenericAlias, types.UnionType, type(cast("object", Union[int, "str"])))
"""The types of `list[Order]` and `Order | None`, which contain other classes."""

_ROWS: set[type] = {list, tuple, set, frozenset}
"""Containers that are searched in bulk."""


def callables_in(value: object) -> Iterator[object]:
    """Yield a value if it is callable, and the callables in containers and dictionary views, at any depth."""
    left, seen = [value], set[int]()
    while left:
        each = left.pop()
        if callable(each):
            yield each
        if (items := _items(each)) and id(each) not in seen:
            seen.add(id(each))
            left.extend(_relevant(items))


def _items(value: object) -> list[object]:
    """Return the items of a container, keys included, even if a subclass hides them; otherwise none."""
    base = next((each for each in _CONTAINERS if isinstance(value, each)), None)
    if base is None:
        return list(getattr(value, "__args__", ())) if isinstance(value, _TYPES) else []
    of_base = cast("Any", base)
    items = list(of_base.__iter__(value))
    return [*items, *of_base.values(value)] if base is dict else items


def _relevant(items: list[object]) -> list[object]:
    """Return the items that are callable or may contain callables; fast for many items of few types."""
    samples = dict(zip(map(type, items), items, strict=True))
    kinds = {
        kind for kind, item in samples.items() if callable(item) or isinstance(item, (*_CONTAINERS, *_TYPES))
    }
    kept = [item for item in items if type(item) in kinds] if kinds else []
    return kept if kinds - _ROWS or _has_relevant_items(kept) else []


def _has_relevant_items(rows: list[object]) -> bool:
    """Whether any item in these containers is callable or may contain callables."""
    kinds = set(map(type, chain.from_iterable(cast("list[list[object]]", rows))))
    return any(
        issubclass(kind, (*_CONTAINERS, *_TYPES)) or any("__call__" in vars(each) for each in kind.__mro__)
        for kind in kinds
    )


_UNSEEN = (eval, exec, compile, types.FunctionType, types.CodeType)
"""Callables that take or make code whose calls no guard sees."""

_TITLES = frozenset(
    (
        *("__defaults__", "__globals__", "__kwdefaults__", "__module__", "__name__", "__qualname__"),
        *("__signature__", "__wrapped__"),
    )
)
_CALL_NAMES = frozenset({"__call__", "__init__", "__new__"})
"""Special methods that are checked when the object or class is called."""


class CallChecks:
    """The decisions in one step.

    Args:
        context: The state of the step.
        permissions: The active sets, at least one.
        tools: The tools of the step.
        report: Reports decisions.
    """

    __slots__ = ("_context", "_failure", "_named", "_output", "_permissions", "_report", "_tools", "names")

    def __init__(
        self,
        context: StepContext,
        permissions: Sequence[Permissions],
        *,
        tools: ToolScope,
        report: Callable[[PermissionCall, PermissionDecision], None],
    ) -> None:
        self._context = context
        self._permissions = permissions
        self._tools = tools
        self.names = StepNames(context, are_needed=any(each.uses_names for each in permissions))
        self._report = report
        self._named = tuple(target for each in permissions for target in each.strict_builtins)
        self._output = sys.stdout
        self._failure: HookError | None = None

    def check(
        self,
        written: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> PermissionCall | None:
        """Decide about a call.

        Returns:
            The call to ask people about; None when no approval is needed.
        """
        if names_a_part(called_function(function), args):
            raise refusal_of_part("a private attribute", args[0] if args else function)
        to_ask, is_free = None, self._is_free(function) and not any(map(evaluates_items, args))
        if not is_free:
            call = self._describe(written, function, args, kwargs)
            decision = self._decide(call, decide, _default_of(function))
            if decision.verdict == "deny":
                raise refusal_of_call(call, decision)
            if decision.verdict == "ask":
                receiver, unclear = self.names.receiver(function)
                to_ask = replace(call, receiver=receiver, unclear_receiver=unclear)
            else:  # a rule that allows a class of the model does not allow the functions behind it
                for each in smuggled_by(function):
                    self._check_handing_over(cast("Callable[..., object]", each))
        self._check_arguments(function, args, kwargs, is_free=is_free)
        return to_ask

    def _check_arguments(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        is_free: bool,
    ) -> None:
        """Check the callables in the arguments: the function may call or keep them."""
        if is_free:
            function, args, kwargs = without_partials(function, args, kwargs)
            self._check_parts(called_function(function), args)
            for each in called_by_name(function, args, kwargs, self._output):
                self.hand_over(each)
            if (assigned := assigned_by(function, args)) is not None:
                self.keep_attribute(*assigned)
            if called_function(function) is type and len(args) == 3:
                self._check_new_class(args[1], args[2])
            if only_inspects(function):
                return
        given = (*args, *kwargs.values())
        # A free function that calls no argument only keeps them, so nothing inside them is called.
        is_keeping = is_free and not calls_its_arguments(function)
        for each in given if is_keeping else callables_in(given):
            self.hand_over(each)

    def _check_parts(self, function: object, args: tuple[object, ...]) -> None:
        """Check the attributes that a function of Python's own reads or removes by their names."""
        for owner, name in read_by(function, args):
            self.read(owner, name)
            if name == VARIABLES and function is not getattr and is_fixed(owner, ""):
                raise refusal_of_part(name, owner)
        removed = args if function is delattr else removed_by(function, args)
        if len(removed) == 2 and is_fixed(removed[0], str(removed[1])):
            raise refusal_of_assignment(str(removed[1]), removed[0])

    def read(self, owner: object, name: str, /) -> object:
        """Admit reading an attribute, and return its object.

        Raises:
            ToolBoundaryError: It is private to this library, or belongs to a function's code.
        """
        if is_protected(owner, name):
            raise refusal_of_part(name, owner)
        return owner

    def hand_over(self, function: object, /) -> object:
        """Admit passing a callable to code that may call it with any arguments.

        Raises:
            ToolBoundaryError: It is not allowed for all arguments.
        """
        if callable(function):
            for each in (function, *smuggled_by(function)):
                self._check_handing_over(cast("Callable[..., object]", each))
        else:  # reading a property calls its functions
            for each in functions_in(function):
                if each is not function:
                    self.hand_over(each)
        return function

    def hand_over_keys(self, mapping: object) -> None:
        """Admit asking an object for its keys."""
        for each in called_by_name(dict, (mapping,), {}, self._output):
            self.hand_over(each)

    def keep_attribute(self, owner: object, name: str, value: object) -> None:
        """Admit assigning a value to an attribute, from which other code may call it.

        Raises:
            ToolBoundaryError: It is not allowed for all arguments, or changes the identity of a function.
        """
        if is_fixed(owner, name) or (name == MATCHED and not are_public(value)):
            raise refusal_of_assignment(name, owner)
        is_function = inspect.isroutine(owner) or isinstance(owner, types.CodeType | type)
        is_title = name in _TITLES and is_function and not self._is_of_step(owner)
        if name == "__code__" or is_title or isinstance(owner, CallChecks):
            raise refusal_of_disguise(name, owner)
        self._keep(value)

    def keep_in_class(self, variables: Mapping[str, object]) -> None:
        """Admit the definitions in the body of a class."""
        for name, value in tuple(variables.items()):
            if name == MATCHED and not are_public(value):
                raise refusal_of_assignment(name, type(self))
            if name not in _CALL_NAMES:
                self._keep(value)

    def making(self) -> Callable[[object], object]:
        """Return the decorator of a class that the code makes."""
        return self._made

    def _made(self, kind: object, /) -> object:
        """Admit a class that the code has made, and return it.

        Operators make objects of a class that derives from some types of the standard library: `date + delta`
        does. No call is seen there, so what makes the objects is admitted here.
        """
        note_class(kind)
        if isinstance(kind, type) and any(each.__module__ in _WITH_OPERATORS for each in kind.__mro__[:-1]):
            for each in borrowed_by(cast("type[object]", kind)):
                if not self._is_of_step(each):
                    self.hand_over(each)
        return kind

    def _keep(self, value: object) -> None:
        if type(value) is type and all(map(self._is_of_step, declared_by(value))):
            self._check_handing_over(cast("Callable[..., object]", value), default="allow")
        else:
            self.hand_over(value)

    def derive(self, base: object, /) -> object:
        """Admit deriving a class from another one.

        Raises:
            ToolBoundaryError: A rule asks about the base class or denies it, or its `__init_subclass__` is
                not allowed for all arguments.
        """
        kind = called_function(base)
        if isinstance(kind, type) and not self._is_free(kind):
            self._check_handing_over(kind, default="allow")
            hook = next((vars(each)[_HOOK] for each in kind.__mro__ if _HOOK in vars(each)), None)
            function = getattr(hook, "__func__", None)
            if isinstance(function, types.FunctionType) and not _is_of_standard_library(function):
                self.hand_over(function)
        return base

    def _check_new_class(self, bases: object, variables: object) -> None:
        """Check the bases and definitions of a class that `type` is about to make."""
        if isinstance(bases, tuple):
            for base in cast("tuple[object, ...]", bases):
                self.derive(base)
        if isinstance(variables, dict):
            self.keep_in_class(cast("dict[str, object]", variables))

    def importing(self) -> None:
        """Check that `import` and `class` call Python's own functions, not replacements by the code.

        Raises:
            ToolBoundaryError: A replacement would be called.
        """
        names = sys._getframe(1).f_builtins  # pyright: ignore[reportPrivateUsage]
        plain: Any = dict  # Python reads the dictionary itself, even if a subclass overrides `get`
        for name in ("__import__", "__build_class__"):
            if plain.get(names, name, own := vars(builtins)[name]) is not own:
                raise refusal_of_disguise(name, builtins)

    def raise_failure(self) -> None:
        """Fail the step when a rule or a hook failed, even if the code of the step caught the error.

        Raises:
            HookError: A rule or a hook failed.
        """
        if self._failure is not None:
            raise self._failure

    def _check_handing_over(self, function: Callable[..., object], *, default: Verdict | None = None) -> None:
        is_calling = calls_its_arguments(function) or reads_by_name(function)
        if not is_calling and self._is_free(function):
            if isinstance(cast("object", function), partial):
                self._check_arguments(function, (), {}, is_free=True)
            return
        call = self._describe("", function, None, {})
        default = "deny" if is_calling else default or _default_of(function)
        decision = self._decide(call, decide_for_any_arguments, default)
        if decision.verdict != "allow":
            raise refusal_of_handing_over(call, decision)

    def _decide(
        self, call: PermissionCall, how: Callable[..., PermissionDecision], default: Verdict | None
    ) -> PermissionDecision:
        """Decide about a call, and report the decision unless it is `allow`."""
        try:
            decision = how(self._permissions, call, default=default)
            if decision.verdict != "allow":
                self._report(call, decision)
        except HookError as error:
            self._failure = error
            raise
        return decision

    def _describe(
        self,
        written: str,
        function: Callable[..., object],
        args: tuple[object, ...] | None,
        kwargs: Mapping[str, object],
    ) -> PermissionCall:
        """Return the call of a function, as rules see it; `args` is None when the arguments are unknown."""
        names = self.names
        arguments: CallArguments = NO_ARGUMENTS if args is None else arguments_of(function, args, kwargs)
        return describe_call(
            function,
            arguments,
            other_names=names.other_names(function, written, self._tools),
            is_own_name=lambda name: names.is_own_name(name, function),
            comes_to=equivalents(*without_partials(function, args or (), kwargs)),
        )

    def _is_free(self, function: Callable[..., object]) -> bool:
        """Whether a function needs no permission: it is Python's own for data, or defined by the step's code.

        The calls inside functions that the step's code defines are guarded themselves.
        """
        if self._is_of_step(called_function(function)):
            return True
        if not is_data_callable(function) or borrowed_by(function):
            return False
        if is_table_of_process(getattr(function, "__self__", None)):
            return False
        if self._named and self._is_named(function):
            return False
        return not _is_exception_of_program(called_function(function))

    def _is_named(self, function: object) -> bool:
        """Whether this builtin is the target of a rule that asks or denies."""
        descriptor = unbound_builtin(function)
        return any(is_same_callable(function, each) or descriptor is each for each in self._named)

    def _is_of_step(self, function: object) -> bool:
        """Whether the code of the step has defined a function."""
        return isinstance(function, types.FunctionType) and function.__globals__ is self._context.step_locals


_HOOK = "__init_subclass__"
_WITH_OPERATORS = DATA_MODULES - {"builtins"}


def _is_exception_of_program(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ != "builtins"


def _is_of_standard_library(function: types.FunctionType) -> bool:
    name = str(function.__globals__.get("__name__"))
    is_its_module = own_attributes(module_of(name)) is function.__globals__
    return is_its_module and name.partition(".")[0] in sys.stdlib_module_names


def _default_of(function: object) -> Verdict | None:
    """Return the verdict on a function without a rule; None for the default of the permissions."""
    called = called_function(function)
    if any(called is each for each in _UNSEEN) or sees_everything(called):
        return "deny"
    return "allow" if _is_exception_of_program(called) and not borrowed_by(called) else None
