"""The code of one step in a sandbox: names that go in and out, errors, and what the model is told.

The program has the values of all names that can leave the sandbox. Before code runs, the names that it
mentions go in, if they are new or have changed; after it, those that it may have changed come back. So the
worker can end at any time, and only what cannot leave it is lost: functions that the code has defined.
"""

import types
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, cast

import anyio
from msgspec.structs import replace

from ..causes import with_causes
from ..errors import NighthawkError, SandboxUnavailableError, ToolBoundaryError
from ..kernel.actor import StepActor
from ..kernel.assignment import AssignmentTarget
from ..kernel.cells import CURRENT_CELL, OUTPUT, PausedCode
from ..kernel.commands import StepState
from ..kernel.context import FAILURE, StepContext, bound_names, mentioned_names
from ..kernel.environment import get_environment
from ..lazy_exports import LazyModule
from ..parallel.resources import use_resource
from ..parallel.task_node import ResourceKeeper
from ..types.unset import UNSET
from .crossing import (
    HostObjects,
    Reference,
    is_async_call,
    is_kept_outside,
    is_module_inside,
    is_record,
    same,
)
from .errors import CrossingError
from .host_calls import HostCalls, as_caught
from .sessions import Cell, CellEnd, CodeFailure, Crossed, Session
from .settings import SandboxSettings
from .visible_names import visible_value

if TYPE_CHECKING:
    from . import monty_pool, monty_session, process_session
else:
    monty_pool = LazyModule(f"{__package__}.monty_pool")
    monty_session = LazyModule(f"{__package__}.monty_session")
    process_session = LazyModule(f"{__package__}.process_session")


class SandboxedCode:
    """Runs the code of one step in its worker.

    Args:
        actor: The actor of the step.
        sandbox: The kind of worker, and its limits.
    """

    is_elsewhere = True

    def __init__(self, actor: StepActor, sandbox: SandboxSettings) -> None:
        self._actor = actor
        self._sandbox = sandbox
        self._objects = HostObjects(sandbox.memory_bytes)
        self._turn = anyio.Lock()
        self._sent: dict[str, Crossed] = {}
        self._inside: set[str] = set()
        self._reachable: frozenset[str] = frozenset()

    def check(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Refuse nothing: the worker does."""

    def check_target(self, target: AssignmentTarget) -> None:
        """Refuse to set attributes, except of data that the block sets."""
        context = self._actor.context
        if not target.fields:
            return
        value = context.step_locals.get(target.root)
        if target.root in context.write_names and is_record(type(value)):
            return
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"{target} cannot be set: code runs in a sandbox, and has copies of values",
            guidance="Assign a whole value to a name that the block sets, or call a function.",
        )

    def run(self, state: StepState, code: types.CodeType, text: str, mode: Literal["eval", "exec"]) -> object:
        """Send code to the worker; an expression that is a name alone needs none."""
        context = state.context
        if mode == "eval" and text.isidentifier():
            found = context.failure if text == FAILURE else visible_value(text, context)
            if found is not UNSET and found is not None and text not in self._inside:
                return found
        mentioned = mentioned_names(code) | self._reachable
        inputs, modules, problems = self._inputs(mentioned, context)
        bound = bound_names(code)
        reads = sorted(name for name in bound | mentioned if name in bound or name in inputs)
        self._reachable |= _of_functions(code)
        cell = Cell(
            text=text,
            is_expression=mode == "eval",
            inputs=inputs,
            modules=modules,
            reads=tuple(name for name in reads if not name.startswith("__")),
            binds=tuple(sorted(bound)),
            may_await=any(map(self._may_await, inputs.values())),
        )
        return PausedCode(self._run(cell, problems))

    def _inputs(
        self, names: Iterable[str], context: StepContext
    ) -> tuple[dict[str, Crossed], dict[str, str], dict[str, str]]:
        """The values of names as they cross, the modules, and the reasons why others cannot."""
        inputs: dict[str, Crossed] = {}
        modules: dict[str, str] = {}
        problems: dict[str, str] = {}
        for name in names:
            value = visible_value(name, context)
            if value is UNSET or name.startswith("__"):
                continue
            if isinstance(value, types.ModuleType) and is_module_inside(value):
                modules[name] = value.__name__
                continue
            try:
                inputs[name] = self._objects.sent(value)
            except CrossingError as error:
                problems[name] = str(error)
        return inputs, modules, problems

    async def _run(self, cell: Cell, problems: Mapping[str, str]) -> object:
        async with self._turn:
            session = await self._session()
            host = HostCalls(self._actor, self._objects)
            news = {name: value for name, value in cell.inputs.items() if self._is_new(name, value)}
            self._sent.update(news)
            self._inside.difference_update(news)
            modules = {name: module for name, module in cell.modules.items() if name not in self._sent}
            self._sent.update(modules)
            try:
                end = await session.run(replace(cell, inputs=news, modules=modules), host)
            except BaseException:
                self._forget()
                raise
            names = await self._actor.settle(
                self._actor.post_call("names of the sandbox", lambda: self._take_back(cell.reads, end))
            )
        if end.printed:
            OUTPUT.write(end.printed)
        if end.failure is not None:
            self._fail(end.failure, host, problems, cell)
        problem = cast("str | None", names)
        if problem is not None:
            raise ToolBoundaryError(kind="execution", message=problem)
        return self._value(end.value, is_expression=cell.is_expression)

    def _may_await(self, value: Crossed) -> bool:
        """Whether calls of a function, or of a method of an object, may have to be awaited."""
        if type(value) is not Reference:
            return False
        found = self._objects.find(value.key)
        return value.kind != "function" or found is None or is_async_call(found[1])

    def _is_new(self, name: str, value: Crossed) -> bool:
        return name not in self._sent or not same(self._sent[name], value)

    async def _session(self) -> Session:
        keeper, step = self._actor.keeper, get_environment().step
        assert keeper is not None, "code runs while the step does"
        if step is not None and _find_unavailable not in step.host_errors:
            step.host_errors = (*step.host_errors, _find_unavailable)
        return await use_resource(keeper, self, "sandbox", self._open_session)

    def _open_session(self) -> AbstractAsyncContextManager[Session]:
        keeper = get_environment().run_state.find_keeper()
        if keeper is None or not keeper.is_here:
            keeper = self._actor.keeper
        assert keeper is not None, "code runs while the step does"
        return _OpenSession(self._sandbox, keeper)

    def _take_back(self, reads: Iterable[str], end: CellEnd) -> str | None:
        """Set the names that the code has bound or changed, in the actor's turn; return what went wrong."""
        context = self._actor.context
        names, problem = context.step_locals, None
        is_lost = end.failure is not None and end.failure.loses_names
        for name in reads:
            value = end.values.get(name, UNSET)
            if value is UNSET:
                if name in self._sent and not is_lost:  # deleted
                    del self._sent[name]
                    names.pop(name, None)
                continue
            if name in self._sent and same(self._sent[name], value):
                continue
            try:
                names[name] = self._objects.received(value, names.get(name))
            except Exception as error:
                if name in context.write_names or not isinstance(error, CrossingError):
                    problem = f"{name} cannot leave the sandbox: {error}"
                self._inside.add(name)
                continue
            self._inside.discard(name)
            self._sent[name] = value
        if is_lost:
            self._forget()
        return problem

    def _forget(self) -> None:
        """Note that the worker has ended."""
        self._sent.clear()
        self._reachable = frozenset()

    def _value(self, value: Crossed, *, is_expression: bool) -> object:
        if value is UNSET:
            return None
        try:
            found = self._objects.received(value)
        except CrossingError as error:
            if is_expression:
                raise ToolBoundaryError(kind="execution", message=str(error)) from error
            found = f"<{error}>"
        if not is_expression:
            CURRENT_CELL[None] = found
        return found

    def _fail(self, failure: CodeFailure, host: HostCalls, problems: Mapping[str, str], cell: Cell) -> None:
        """Raise the error of the code; that of a call of the program as it is."""
        for error in reversed(host.failures):
            type_name, message = as_caught(error)
            if type_name == failure.type_name and failure.message in (message, repr(message)):
                raise error
        text = f"{failure.type_name}: {failure.message}".removesuffix(": ")
        if failure.type_name == "NameError":
            reasons = [
                f"{name}: {reason}" for name, reason in problems.items() if f"'{name}'" in failure.message
            ]
            text = "; ".join([text, *reasons])
        lines = cell.text.splitlines()
        if 0 < failure.line <= len(lines):
            text = f"line {failure.line} ({lines[failure.line - 1].strip()}): {text}"
        guidance = None
        if failure.loses_names:
            lost, self._inside = sorted(self._inside), set()
            names = f" The sandbox starts anew, without {', '.join(lost)}." if lost else ""
            text = f"{text}.{names}"
            guidance = "Do less in one piece of code, or in another way."
        raise ToolBoundaryError(kind="execution", message=text, guidance=guidance)


class _OpenSession(AbstractAsyncContextManager["Session"]):
    """The session of a step, in a worker of the run's pool."""

    def __init__(self, sandbox: SandboxSettings, keeper: ResourceKeeper) -> None:
        self._sandbox = sandbox
        self._keeper = keeper
        self._session: Session | None = None

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(self, *exc_details: object) -> None:
        if self._session is not None:
            await self._session.aclose()

    async def _open(self) -> Session:
        if self._sandbox.kind == "process":
            return process_session.ProcessSession(self._sandbox)
        pool = await use_resource(
            self._keeper, monty_pool.MontyPool, "sandbox pool", monty_pool.MontyPool, ends_last=True
        )
        return monty_session.MontySession(pool, self._sandbox)


def _find_unavailable(error: BaseException) -> NighthawkError | None:
    """Return the error of a sandbox that cannot run, which no model can fix."""
    return next((each for each in with_causes(error) if isinstance(each, SandboxUnavailableError)), None)


def _of_functions(code: types.CodeType) -> frozenset[str]:
    """The names that functions defined by code mention, and so may use later."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset[str]().union(*map(mentioned_names, inner))


def note_of(sandbox: SandboxSettings, context: StepContext) -> str:
    """The text about the sandbox in the prompt of a step."""
    kept = [
        name
        for name, value in {**context.referenced_globals, **context.shown_locals}.items()
        if not name.startswith("__") and is_kept_outside(value)
    ]
    language = (
        "Code runs in a sandbox, in a subset of Python: no files, network or packages, no class inheritance, "
        "`yield` or `del`. "
        if sandbox.kind == "monty"
        else "Code runs in a sandbox, without files of the program and network. "
    )
    outside = (
        f" These stay outside, and have methods and attributes only: {', '.join(sorted(kept))}."
        if kept
        else ""
    )
    return (
        f"{language}Its values are copies: to change one, assign it to a name that the block sets.{outside}"
    )
