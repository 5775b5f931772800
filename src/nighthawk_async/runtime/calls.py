"""Calls of natural functions: a scope for tools, a node for observers."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FunctionType
from typing import TypeVar

from ..natural.transform import parameter_names
from ..observation import NodeWriter, find_node_writer, observed, using_node_writer
from ..parallel.outcomes import state_after
from ..types.unset import UNSET, unset
from .annotations import ReturnCheck
from .argument_check import ArgumentCheck
from .environment import find_environment, find_journal, using_environment
from .natural_entries import promised_type, static_attribute
from .places import identity_version, placed_owner, using_function_place
from .tracebacks import fold_frames
from .validation import Declared, Origin

Result = TypeVar("Result")

_OWNERS = ("self", "cls")
"""Parameters that callers of a method do not pass."""


class CallEntry:
    """Makes the scopes of the calls of one function; see `natural.transform.CallEntry`.

    Args:
        function: The function.
        is_generator: Whether it is a generator or an async generator. Their calls are no scopes for tools: a
            scope would stay open while the generator is suspended.
        return_check: Validates the returned value; None for no check.
        argument_check: Validates the arguments of calls by models.
    """

    __slots__ = (
        "_is_generator",
        "_parameters",
        "_return_check",
        "_unobserved_generator",
        "argument_check",
        "name",
        "source",
    )

    def __init__(
        self,
        function: FunctionType,
        *,
        is_generator: bool,
        return_check: ReturnCheck | None,
        argument_check: ArgumentCheck,
    ) -> None:
        self.argument_check = argument_check
        code = function.__code__
        self._parameters = parameter_names(code)
        self._is_generator = is_generator
        self._return_check = return_check
        self._unobserved_generator = GeneratorScope(None, return_check)
        self.name = function.__qualname__
        self.source = f"{function.__module__}:{code.co_firstlineno}"

    @property
    def return_type(self) -> object:
        """The type of what the function returns; UNSET if it returns anything."""
        annotation = UNSET if self._return_check is None else self._return_check.annotation
        return UNSET if self._is_generator or annotation is object else annotation

    @property
    def is_watched(self) -> bool:
        """Whether observers or a journal want the arguments."""
        return find_node_writer() is not None or find_journal() is not None

    def __call__(self, arguments: Mapping[str, object] | None) -> "_CallScope | GeneratorScope":
        """Make the scope of one call.

        Args:
            arguments: The local variables at the beginning of the function; None if nobody wants them.
        """
        if self._is_generator:
            return self._unobserved_generator if arguments is None else self._observed_generator(arguments)
        check = self._return_check
        return _CallScope(check) if arguments is None else _ObservedCall(self, arguments, check)

    def inputs(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments of a call, by name.

        Args:
            arguments: The local variables at the beginning of the function.
        """
        return {name: each for name, each in self._given(arguments).items() if name not in _OWNERS}

    def place_inputs(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments that identify a call in a task that was started by hand: also the object of a method.

        Args:
            arguments: The local variables at the beginning of the function.
        """
        if identity_version() == 1:
            return self.inputs(arguments)
        given = self._given(arguments)
        return {name: placed_owner(each) if name in _OWNERS else each for name, each in given.items()}

    def _given(self, arguments: Mapping[str, object]) -> dict[str, object]:
        return {name: arguments[name] for name in self._parameters if name in arguments}

    def _observed_generator(self, arguments: Mapping[str, object]) -> "GeneratorScope":
        parent = find_node_writer()
        if parent is None:  # other threads may stop observing at any time
            return self._unobserved_generator
        inputs = self.inputs(arguments)
        node = parent.begin_child("function", self.name, source=self.source, inputs=inputs)
        return GeneratorScope(node, self._return_check)


class _Returning:
    """Validates the value that a call returns.

    Args:
        return_check: The check; None for none.
    """

    __slots__ = ("_return_check",)

    def __init__(self, return_check: ReturnCheck | None) -> None:
        self._return_check = return_check

    def returned(
        self, value: object, is_declared: bool = False, owner: object = None, attribute: str = ""
    ) -> object:
        """Return the validated value of a `return` statement; see `natural.transform.CallScope`.

        Raises:
            UnboundLocalError: The value is `nighthawk_async.unset`: no block has set the variable.
        """
        if value is unset:
            raise UnboundLocalError(
                "the function returns nighthawk_async.unset: no block has set it (it belongs above the block)"
            )
        check = self._return_check
        if check is None:
            return self.concluded(value)
        origin: Origin = "declared" if is_declared else "new"
        if owner is not None:
            function = static_attribute(owner, attribute) if attribute else owner
            origin = Declared(promised_type(function), is_converted=True).origin(check.annotation, value)
        return self.concluded(check.returned(value, origin))

    def fell_off(self) -> object:
        """Return the validated None of a function that reaches its end."""
        check = self._return_check
        return None if check is None else self.concluded(check.fell_off())

    def concluded(self, value: Result) -> Result:
        """Record the returned value, which is validated already, and return it."""
        return value


class _CallScope(_Returning):
    """The scope of one call, for tools that the function's own code registers."""

    __slots__ = ("_scope",)

    def __init__(self, return_check: ReturnCheck | None) -> None:
        super().__init__(return_check)
        self._scope: using_environment | None = None

    def __enter__(self) -> "_CallScope":
        environment = find_environment()
        if environment is not None:
            self._scope = using_environment(environment.of_call())
            self._scope.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._leave_scope()
        fold_frames(exc)

    def _leave_scope(self) -> None:
        if self._scope is not None:
            self._scope.__exit__(None, None, None)


class _ObservedCall(_CallScope):
    """The scope of a call that is reported to observers.

    Args:
        entry: The entry of the call.
        arguments: Its arguments, among other variables.
        return_check: Validates the returned value; None for no check.
    """

    __slots__ = ("_node", "_observed", "_outputs", "_place")

    def __init__(
        self, entry: CallEntry, arguments: Mapping[str, object], return_check: ReturnCheck | None
    ) -> None:
        super().__init__(return_check)
        self._outputs: Mapping[str, object] | None = None
        inputs = partial(entry.inputs, arguments)
        self._observed = observed("function", entry.name, source=entry.source, inputs=inputs)
        place_inputs = partial(entry.place_inputs, arguments)
        self._place = using_function_place(entry.name.rpartition(".")[2], place_inputs)

    def __enter__(self) -> "_ObservedCall":
        self._node = self._observed.__enter__()
        super().__enter__()
        self._place.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        try:
            self._place.__exit__(exc_type, exc, traceback)
        finally:
            self._leave_scope()
            _report_end(self._node, self._outputs, exc)
            self._observed.__exit__(exc_type, exc, traceback)
            fold_frames(exc)  # at last: a context manager restores the traceback that it was given

    def concluded(self, value: Result) -> Result:
        self._outputs = {"return": value}
        return value


class GeneratorScope(_Returning):
    """One generator, from its first value to its end.

    Its caller runs between its values, so nothing may stay active then: its node is active only during its
    blocks.

    Args:
        node: Its node; None if nobody observes.
        return_check: Validates the returned value; None for no check.
    """

    __slots__ = ("_node", "_outputs")

    def __init__(self, node: NodeWriter | None, return_check: ReturnCheck | None) -> None:
        super().__init__(return_check)
        self._node = node
        self._outputs: Mapping[str, object] | None = None

    def __enter__(self) -> "GeneratorScope":
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        has_been_closed = isinstance(exc, GeneratorExit)  # the caller wants no more values
        _report_end(self._node, self._outputs, None if has_been_closed else exc)
        fold_frames(exc)

    def concluded(self, value: Result) -> Result:
        """Record the value that it is about to return, and return it."""
        if self._node is not None:
            self._outputs = {"return": value}
        return value

    def active(self) -> AbstractContextManager[object]:
        """Make its node the parent of what happens in the `with` statement."""
        return nullcontext() if self._node is None else using_node_writer(self._node)


def _report_end(
    node: NodeWriter | None, outputs: Mapping[str, object] | None, leaving: BaseException | None
) -> None:
    if node is not None:
        node.end(state_after(leaving), outputs=None if leaving is not None else outputs, error=leaving)
