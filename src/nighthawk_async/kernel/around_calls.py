"""Calls that policies are around: they make them, in another function with the same code."""

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any, Protocol, TypeAlias

from anyio import CapacityLimiter

from ..natural.blocks import NaturalBlock
from ..parallel.task_current import share_positions
from ..threads import call_in_thread
from .conclude import StepResult
from .environment import get_environment, run_from_sync, using_environment
from .function_calls import AroundFunction, FunctionCall, FunctionFold, Run, passed

BindCall: TypeAlias = Callable[[FunctionCall], FunctionType]
"""Binds the code of a function for one call, which notes its commits and goes through no policy any more."""


class ReturningScope(Protocol):
    """The scope of a call, as far as its value goes through it; see `natural.transform.CallScope`."""

    def returned(self, value: object) -> object:
        """Return the validated form of a value."""
        ...

    def concluded(self, value: object) -> object:
        """Record the value of the call, and return it."""
        ...


MakeAround: TypeAlias = (
    "Callable[[Sequence[AroundFunction], ReturningScope, Mapping[str, object]], AroundCall]"
)
"""Makes the way of a call of one function: from its policies, its scope and its arguments by name."""


class AroundCall:
    """The way of one call through the policies around it; see `natural.transform.AroundCall`.

    Args:
        function: The natural function.
        bind_call: Binds its code for the call.
        policies: Those that override `around_function`, outermost first.
        scope: The scope of the call.
        arguments: The arguments by name.
    """

    __slots__ = ("_arguments", "_bind_call", "_function", "_policies", "_scope")

    def __init__(
        self,
        function: FunctionType,
        bind_call: BindCall,
        policies: Sequence[AroundFunction],
        scope: ReturningScope,
        arguments: Mapping[str, object],
    ) -> None:
        self._policies = policies
        self._scope = scope
        self._function = function
        self._bind_call = bind_call
        self._arguments = arguments

    async def call(self) -> object:
        """Make the call of an `async def` function."""
        return await self._ask(self._run)

    def call_from_sync(self) -> object:
        """Make the call of a `def` function, whose body runs in a worker thread of the policies' loop."""
        value, ending = run_from_sync(self._ask_for_thread)
        if ending is None:
            return value
        try:
            raise ending
        finally:
            del ending  # so that the error and this frame do not hold each other

    async def _ask_for_thread(self) -> tuple[object, BaseException | None]:
        share_positions()
        try:
            return await self._ask(self._run_in_thread), None
        except (KeyboardInterrupt, SystemExit) as ending:  # raised here, it would end the event loop
            return None, ending

    async def _ask(self, run: Run) -> object:
        environment = get_environment()
        call = FunctionCall(
            function=self._function,
            arguments=MappingProxyType(self._arguments),
            execution_ref=environment.execution_ref,
            parent=environment.function_call,
        )
        fold = FunctionFold(self._policies, run, self._scope.returned)
        with using_environment(environment.within_call(call)):
            return self._scope.concluded(await fold.ask(0, call))

    async def _run(self, call: FunctionCall) -> object:
        with using_environment(get_environment().within_call(call)):
            return await self._body_of(call)()

    async def _run_in_thread(self, call: FunctionCall) -> object:
        body = self._body_of(call)

        def run_body() -> object:
            share_positions()
            return body()

        with using_environment(get_environment().within_call(call)):
            # Its caller's thread waits, so there are no more threads than calls: a shared limit could hang.
            return await call_in_thread(run_body, limiter=CapacityLimiter(1))

    def _body_of(self, call: FunctionCall) -> Callable[[], Any]:
        function = self._bind_call(call)
        by_position, by_keyword = passed(call)
        return lambda: function(*by_position, **by_keyword)


def noting_commits(
    run_step: Callable[..., Any], blocks: Sequence[NaturalBlock], call: FunctionCall
) -> Callable[..., Any]:
    """Have a call note what its blocks commit.

    Args:
        run_step: Runs a block of the function; see `natural.transform.TransformedFunction.bind`.
        blocks: The blocks of the function.
        call: The call.
    """

    def noted(index: int, result: StepResult) -> StepResult:
        call.note_commit(blocks[index].step_id, result.bindings)
        return result

    async def run_noted(index: int, *arguments: object) -> StepResult:
        return noted(index, await run_step(index, *arguments))

    def run_noted_from_sync(index: int, *arguments: object) -> StepResult:
        return noted(index, run_step(index, *arguments))

    return run_noted if blocks[0].is_async else run_noted_from_sync
