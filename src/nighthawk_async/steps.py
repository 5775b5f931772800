"""`step` and `step_sync`: natural blocks that are chosen at run time."""

import ast
import builtins
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import lru_cache
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import Struct

from .errors import NaturalParseError, NighthawkError
from .executors.choice import ExecutorChoice
from .functions import scope_maker, step_runners
from .kernel.calls import folding_frames
from .kernel.prepare import NaturalSite
from .kernel.tools import ToolSource
from .natural.blocks import NaturalBlock, parse_literal
from .natural.program import SENTINEL, is_usable_name, root_name
from .natural.transform import StepResult
from .types.code import CodeLevel, CodeLevelName
from .types.json import is_text
from .types.outcomes import OutcomeKind

if TYPE_CHECKING:
    from .policies.budgets.budget import Budget
    from .policies.budgets.terms import BudgetLimits
    from .skills.skill import SkillSource
else:
    Budget = BudgetLimits = SkillSource = object

Value = TypeVar("Value")

_MAXIMUM_PROGRAMS = 512
_INFRASTRUCTURE = ("nighthawk_async", "anyio", "trio", "asyncio", "functools", "concurrent")
"""Packages whose frames do not belong to the user's program."""


class StepOutputs(Mapping[str, Any]):
    """The values that a step has written: a mapping by name, whose items are attributes as well.

    An item whose name is a method of mappings, such as `items`, is read as `outputs["items"]`.

    Args:
        values: The values by name.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name == "_values":  # of an object that is not initialized yet
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name)
        if name not in self._values:
            written = ", ".join(self._values) or "nothing"
            raise AttributeError(f"The step has not written {name!r}; it has written: {written}.", name=name)
        return self._values[name]

    def __repr__(self) -> str:
        return f"StepOutputs({self._values!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return StepOutputs, (self._values,)


class _Place(Struct, frozen=True):
    """The line of the program that runs a step."""

    filename: str
    line: int
    module: str
    function_name: str


class _ChosenStep(Struct, frozen=True, kw_only=True, eq=False):
    """A step that is ready to run."""

    block: NaturalBlock
    site: NaturalSite
    values: Mapping[str, object]
    has_return_value: bool

    def result(self, result: StepResult) -> Any:
        """Return the result for the caller, or raise the exception of the block."""
        if result.exception is not None:
            try:
                raise result.exception
            finally:
                del result
        if self.has_return_value:
            return result.return_value
        written = {**self.values, **result.bindings}
        return StepOutputs({name: written[name] for name in self.block.write_names if name in written})


@overload
def step(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: None = None,
    returns: type[Value],
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Coroutine[Any, Any, Value]: ...


@overload
def step(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: None = None,
    returns: Any,
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Coroutine[Any, Any, Any]: ...


@overload
def step(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: Mapping[str, Any] | None = None,
    returns: None = None,
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Coroutine[Any, Any, StepOutputs]: ...


def step(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: Mapping[str, Any] | None = None,
    returns: Any = None,
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Coroutine[Any, Any, Any]:
    """Run a natural block that is chosen at run time.

        result = await nh.step("Summarize <text>: <:summary>", text=text, outputs={"summary": str})
        print(result.summary)

        is_urgent = await nh.step("Is <mail> urgent?", mail=mail, returns=bool)

    It is a step like that of a written block: it belongs to the active run; scopes, tools, policies and the
    task tree apply to it. It sees the values that it is given, and no variables of the caller. It ends with
    `pass`, or with `return` when `returns` is given, or with `raise`.

    Args:
        program: The text of the block, with `<name>` and `<:name>` bindings. Indentation that all lines
            share, and line breaks at both ends, are removed. Frontmatter may deny outcomes. Do not build it
            from text that others wrote: pass such text as a value.
        values: The values by name. A value of a write binding is its initial value.
        outputs: The types of write bindings by name; one that is left out has the type of its initial value,
            or any.
        returns: The type of the value to return; the result is then that value, and the program has no write
            bindings.
        model: The model of the step; see `nighthawk_async.natural_function`.
        budget: The budget of the step; see `nighthawk_async.natural_function`.
        tools: The tools of the step, beside those that are visible already; see `nighthawk_async.scope`.
        skills: The skills of the step, beside those of the scope; see `nighthawk_async.scope`.
        code: What code of the step's model may do; see `nighthawk_async.natural_function`.
        more_values: More values, by name.

    Returns:
        A coroutine of the values of the write bindings, by name and as attributes (`StepOutputs`), or of the
        returned value.

    Raises:
        NaturalParseError: The program is malformed, or does not fit `outputs` and `returns`.
        NighthawkError: No run is active, or a value has a name that no block can use.
        NameError: The program reads a name that has no value.
        ExecutionError: The step failed; see `nighthawk_async.natural_function` for other errors of steps.
    """
    chosen = _choose(
        program,
        {**(values or {}), **more_values},
        outputs=outputs or {},
        returns=returns,
        is_async=True,
    )
    run, _ = step_runners(scope_maker(model, budget, tools, skills, code))
    return _run(chosen, run)


async def _run(chosen: _ChosenStep, run: Callable[..., Any]) -> Any:
    with folding_frames():
        return chosen.result(await run(chosen.block, chosen.site, chosen.values, None))


@overload
def step_sync(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: None = None,
    returns: type[Value],
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Value: ...


@overload
def step_sync(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: None = None,
    returns: Any,
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Any: ...


@overload
def step_sync(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: Mapping[str, Any] | None = None,
    returns: None = None,
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> StepOutputs: ...


def step_sync(
    program: str,
    values: Mapping[str, object] | None = None,
    /,
    *,
    outputs: Mapping[str, Any] | None = None,
    returns: Any = None,
    model: ExecutorChoice | None = None,
    budget: "BudgetLimits | Budget | None" = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    **more_values: object,
) -> Any:
    """Run a natural block that is chosen at run time, from synchronous code.

    Arguments, results and errors are those of `step`. Like a synchronous natural function, it is called from
    code without an event loop, or in a worker thread of one.
    """
    chosen = _choose(
        program,
        {**(values or {}), **more_values},
        outputs=outputs or {},
        returns=returns,
        is_async=False,
    )
    _, run_sync = step_runners(scope_maker(model, budget, tools, skills, code))
    with folding_frames():
        return chosen.result(run_sync(chosen.block, chosen.site, chosen.values, None))


def _choose(
    program: str,
    values: Mapping[str, object],
    *,
    outputs: Mapping[str, Any],
    returns: Any,
    is_async: bool,
) -> _ChosenStep:
    place = _calling_place(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]
    if not is_text(program):
        raise NaturalParseError(f"the program of a step must be a text, not {program!r}")
    block = _parse(program, place, has_return_value=returns is not None, is_async=is_async)
    _check_names(block, values, outputs, has_return_value=returns is not None)
    annotations = dict(outputs) if returns is None else {"return": returns}
    site = NaturalSite(
        module_globals={"__builtins__": builtins},
        annotations=lambda: MappingProxyType(annotations),
    )
    return _ChosenStep(block=block, site=site, values=values, has_return_value=returns is not None)


@lru_cache(maxsize=_MAXIMUM_PROGRAMS)
def _parse(program: str, place: _Place, *, has_return_value: bool, is_async: bool) -> NaturalBlock:
    kinds: tuple[OutcomeKind, ...] = ("return", "raise") if has_return_value else ("pass", "raise")
    literal = ast.Constant(program if program.startswith(SENTINEL) else SENTINEL + program.strip("\n"))
    literal.lineno = place.line
    parsed = parse_literal(literal, kinds, ends_function=True, filename=place.filename)
    return NaturalBlock(
        filename=place.filename,
        line=place.line,
        module=place.module,
        function_name=place.function_name,
        number=0,
        is_async=is_async,
        allowed_kinds=kinds,
        ends_function=True,
        program=parsed.program,
        read_names=parsed.bindings.read_names,
        write_names=parsed.bindings.write_names,
        named=frozenset(map(root_name, parsed.bindings.references)),
        local_names=frozenset(parsed.bindings.write_names),
        free_names=frozenset(),
        annotations=MappingProxyType({}),
        named_types=MappingProxyType({}),  # `outputs` has the types
        references=parsed.bindings.references,
    )


def _check_names(
    block: NaturalBlock, values: Mapping[str, object], outputs: Mapping[str, Any], *, has_return_value: bool
) -> None:
    """Check that the arguments fit the program.

    Raises:
        NaturalParseError: The program does not write a name in `outputs`, or has write bindings although
            `returns` is given.
        NighthawkError: A value has a name that no block can use.
    """
    written = ", ".join(f"<:{name}>" for name in block.write_names)
    unwritten = [name for name in outputs if name not in block.write_names]
    problem = None
    if has_return_value and (written or outputs):
        problem = f"a step with returns= has no write bindings, but this one has {written or 'outputs='}"
    elif unwritten:
        problem = (
            f"outputs= names {', '.join(map(repr, unwritten))}, but the program writes "
            f"{written or 'nothing'}; mention it as <:{unwritten[0]}>"
        )
    if problem is not None:
        raise NaturalParseError(problem, filename=block.filename, line=block.line)
    for name in values:
        if not is_usable_name(name):
            raise NighthawkError(f"The value {name!r} has a name that no block can use.")


def _calling_place(caller: FrameType) -> _Place:
    """Return the innermost line outside of this library and the event loop."""
    frame: FrameType | None = caller
    while frame is not None and _module(frame).partition(".")[0] in _INFRASTRUCTURE:
        frame = frame.f_back
    found = frame or caller
    code = found.f_code
    return _Place(code.co_filename, found.f_lineno, _module(found), code.co_qualname)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "<unknown>"))
