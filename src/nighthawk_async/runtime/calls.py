"""What calls of natural functions go through: an extent for tools, a node for whoever watches. Floor 3."""

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

from ..observation import NodeWriter, find_node_writer, observed, using_node_writer
from ..parallel.told import state_after
from .environment import find_environment, using_environment
from .tools.registry import ToolScope

__all__ = ["CallDoor"]

Result = TypeVar("Result")

_OWNERS = ("self", "cls")
"""Parameters that are no arguments to those who call a method."""


class CallDoor:
    """What the calls of one function go through; see `natural.transform.CallDoor`.

    Args:
        function: The function.
        is_generator: Whether it is a generator or an async generator. Calls of those are no extents for
            tools: an extent would outlive the piece of the generator that opened it.
    """

    __slots__ = ("_argument_names", "_is_generator", "name", "source")

    def __init__(self, function: FunctionType, *, is_generator: bool) -> None:
        code = function.__code__
        flags = (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
        count = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in flags)
        self._argument_names = tuple(name for name in code.co_varnames[:count] if name not in _OWNERS)
        self._is_generator = is_generator
        self.name = function.__qualname__
        self.source = f"{function.__module__}:{code.co_firstlineno}"

    @property
    def is_watched(self) -> bool:
        """Whether the arguments are wanted."""
        return find_node_writer() is not None

    def __call__(self, arguments: Mapping[str, object] | None) -> "_CallExtent | _GeneratorExtent":
        """Make the extent of one call.

        Args:
            arguments: The local variables with which the function begins; None when they are not wanted.
        """
        if self._is_generator:
            return _UNTOLD_GENERATOR if arguments is None else _ToldGenerator(self, arguments)
        return _CallExtent() if arguments is None else _ToldCall(self, arguments)

    def inputs(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments of a call, by name.

        Args:
            arguments: The local variables with which the function begins.
        """
        return {name: arguments[name] for name in self._argument_names if name in arguments}


class _CallExtent:
    """The extent of one call, for tools that the function's own code registers."""

    __slots__ = ("_extent",)

    def __init__(self) -> None:
        self._extent: using_environment | None = None

    def __enter__(self) -> "_CallExtent":
        environment = find_environment()
        if environment is not None:
            inner = replace(environment, tool_scope=ToolScope(environment.tool_scope))
            self._extent = using_environment(inner)
            self._extent.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._extent is not None:
            self._extent.__exit__(None, None, None)

    def returned(self, value: Result) -> Result:
        return value


class _ToldCall(_CallExtent):
    """The same, of a call that whoever watches is told of.

    Args:
        door: What it goes through.
        arguments: Its arguments, among other variables.
    """

    __slots__ = ("_node", "_observed", "_outputs")

    def __init__(self, door: CallDoor, arguments: Mapping[str, object]) -> None:
        super().__init__()
        self._outputs: Mapping[str, object] | None = None
        inputs = partial(door.inputs, arguments)
        self._observed = observed("function", door.name, source=door.source, inputs=inputs)

    def __enter__(self) -> "_ToldCall":
        self._node = self._observed.__enter__()
        super().__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        super().__exit__(exc_type, exc, traceback)
        if self._node is not None:
            self._node.end(state_after(exc), outputs=self._outputs, error=exc)
        self._observed.__exit__(exc_type, exc, traceback)

    def returned(self, value: Result) -> Result:
        self._outputs = {"return": value}
        return value


class _GeneratorExtent:
    """One generator that nobody watches."""

    __slots__ = ()

    def __enter__(self) -> "_GeneratorExtent":
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        pass

    def returned(self, value: Result) -> Result:
        return value

    def suspended(self, value: Result) -> Result:
        return value

    def resumed(self, value: Result) -> Result:
        return value

    def delegated(self, iterable: Iterable[Result]) -> Iterable[Result]:
        return iterable


_UNTOLD_GENERATOR = _GeneratorExtent()


class _ToldGenerator(_GeneratorExtent):
    """One generator that whoever watches is told of; its node is in force while it runs, not between values.

    Args:
        door: What it goes through.
        arguments: Its arguments, among other variables.
    """

    __slots__ = ("_extent", "_inside", "_node", "_outputs")

    def __init__(self, door: CallDoor, arguments: Mapping[str, object]) -> None:
        around = find_node_writer()
        assert around is not None, "nobody watches"
        self._node = around.begin_child(
            "function", door.name, source=door.source, inputs=door.inputs(arguments)
        )
        self._inside: NodeWriter | None = self._node
        self._extent: using_node_writer | None = None
        self._outputs: Mapping[str, object] | None = None

    def __enter__(self) -> "_ToldGenerator":
        self._go_on()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._extent is not None:
            self._extent.__exit__()
        if isinstance(exc, GeneratorExit):  # whoever iterates over it has had enough
            exc = None
        self._node.end(state_after(exc), outputs=self._outputs, error=exc)

    def returned(self, value: Result) -> Result:
        self._outputs = {"return": value}
        return value

    def suspended(self, value: Result) -> Result:
        if self._extent is not None:
            self._inside = find_node_writer()
            self._extent.__exit__()
            self._extent = None
            self._node.change_state("waiting")
        return value

    def resumed(self, value: Result) -> Result:
        if self._extent is None:
            self._go_on()
            self._node.change_state("running")
        return value

    def delegated(self, iterable: Iterable[Result]) -> Generator[Result, Any, Any]:
        """Do what `yield from` does (PEP 380), and leave the generator at every value of the other one."""
        iterator = cast("Any", iter(iterable))
        advance: Callable[[], Result] = partial(next, iterator)
        while True:
            try:
                value = advance()
            except StopIteration as end:
                return end.value
            try:
                sent = yield self.suspended(value)
            except GeneratorExit:
                self.resumed(None)
                getattr(iterator, "close", _nothing)()
                raise
            except BaseException as error:
                self.resumed(None)
                if not hasattr(iterator, "throw"):
                    raise
                advance = partial(iterator.throw, error)
            else:
                self.resumed(None)
                advance = partial(next, iterator) if sent is None else partial(iterator.send, sent)

    def _go_on(self) -> None:
        self._extent = using_node_writer(self._inside)
        self._extent.__enter__()


def _nothing() -> None:
    pass
