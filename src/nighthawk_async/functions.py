"""`@nh.natural_function`: Python functions with natural blocks (specification 5.1, 6 and 11)."""

import builtins
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from anyio import from_thread
from msgspec import Struct

from .errors import NaturalParseError, NighthawkError
from .executors.choice import ExecutorChoice, FunctionExecutor, checked_model_id
from .kernel.assignment import ArgumentCheck, captured_names
from .kernel.calls import CallEntry, InnerCall
from .kernel.declared_types import ReturnCheck, annotations_of
from .kernel.environment import get_step_executor
from .kernel.policy import Policy
from .kernel.prepare import NaturalSite
from .kernel.run_step import BlockRunner, run_step, run_step_from_sync
from .kernel.tools import ToolSource
from .lazy_exports import LazyModule
from .natural.blocks import NaturalBlock
from .natural.scope import NestedBlock
from .natural.transform import (
    StepResult,
    TransformedFunction,
    copy_attributes,
    transform_function,
)
from .natural.tree import SCOPE_NAME
from .parallel import under_thread_deadlines
from .parallel.event_loop import is_loop_thread, is_worker_thread
from .parallel.task_current import find_place
from .placements import Placement, call_placed, checked_placement, note_placed_function
from .signatures import enclosing_frames, keep_names, names_in_scope, read_annotations, variables_of
from .types.code import CodeLevel, CodeLevelName
from .types.execution import OnPartial
from .types.unset import UNSET


def placed_function(function: FunctionType, placement: Placement) -> FunctionType:
    """Return a function whose calls run on a placement; inside a placed call, it runs where it is.

    Args:
        function: The function, async or not.
        placement: The placement.

    Raises:
        NighthawkError: It is a generator, whose values would have to cross one by one.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise NighthawkError(
            f"{function.__qualname__}() is a generator, which cannot have on=: its caller runs between its "
            "values. Return a list, or make the calls in it natural functions with on=."
        )
    make = _placed if inspect.iscoroutinefunction(function) else _placed_from_thread
    placed = cast("FunctionType", make(function, placement))
    note_placed_function(placed)
    return placed


def _placed(function: Callable[..., Any], placement: Placement) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        if find_place().is_placed:
            return await function(*args, **kwargs)
        return await call_placed(placement, call, *args, **kwargs)

    return call


def _placed_from_thread(function: Callable[..., Any], placement: Placement) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if find_place().is_placed:
            return function(*args, **kwargs)
        if is_loop_thread() or not is_worker_thread():
            raise NighthawkError(
                f"{function.__qualname__}() has on= and is not `async def`: call it in a worker thread of "
                "the placement's event loop, with anyio.to_thread.run_sync or parallel.map, or make it "
                "`async def`."
            )

        async def call_in_loop() -> Any:
            return await call_placed(placement, call, *args, **kwargs)

        return from_thread.run(cast("Any", under_thread_deadlines(call_in_loop)))

    return call


if TYPE_CHECKING:
    from .kernel import around_calls, function_calls
    from .policies.budgets.budget import Budget
    from .policies.budgets.terms import BudgetLimits
    from .policies.oversight.inspection import Verify
    from .scopes import Scope
    from .skills import skill as skill_types
else:
    Budget = BudgetLimits = Scope = Verify = object
    around_calls = LazyModule("nighthawk_async.kernel.around_calls")  # few programs have policies around them
    skill_types = LazyModule("nighthawk_async.skills.skill")  # few functions have skills

Function = TypeVar("Function", bound=Callable[..., Any])

RunStep: TypeAlias = Callable[[int, Mapping[str, object], str | None], object]
RunBlock: TypeAlias = Callable[
    [NaturalBlock, NaturalSite, Mapping[str, object], str | None], Awaitable[StepResult]
]
RunBlockFromSync: TypeAlias = Callable[
    [NaturalBlock, NaturalSite, Mapping[str, object], str | None], StepResult
]


class _Options(Struct, frozen=True, kw_only=True, eq=False):
    """Arguments of the decorator.

    Args:
        policies: The policies of the function.
        make_scope: Makes the scope of one block; None for none.
    """

    policies: tuple[Policy, ...]
    make_scope: "Callable[[], Scope] | None"


@overload
def natural_function(function: Function, /) -> Function: ...


@overload
def natural_function(
    *,
    model: ExecutorChoice | None = ...,
    step_budget: "BudgetLimits | Budget | None" = ...,
    verify: "Verify" = ...,
    on_partial: OnPartial | None = ...,
    tools: Sequence[ToolSource] | None = ...,
    skills: "skill_types.SkillSource | None" = ...,
    code: CodeLevelName | CodeLevel | None = ...,
    on: Placement | None = ...,
) -> Callable[[Function], Function]: ...


def natural_function(
    function: Function | None = None,
    /,
    *,
    model: ExecutorChoice | None = None,
    step_budget: "BudgetLimits | Budget | None" = None,
    verify: "Verify" = (),
    on_partial: OnPartial | None = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "skill_types.SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
    on: Placement | None = None,
) -> Function | Callable[[Function], Function]:
    """Make a function whose natural blocks are run by the run's step executor.

    Works on `async def` and `def` functions, methods, class methods, static methods, generators and async
    generators. Put it nearest to the function, below other decorators. The result keeps the signature, the
    docstring (sentinel included), the defaults and the annotations; `__wrapped__` is the original function.

    A name that only a block's text mentions is looked up when the block runs: among the function's local
    variables, the enclosing function's (when that one is a natural function too), the module's globals and
    the builtins. When the enclosing function is not a natural function, Python keeps no variable for such a
    name, so the value it has in the enclosing function at decoration is used.

    Args:
        function: The function, with at least one natural block, when the decorator is used without
            parentheses.
        model: The model of the function's steps and of steps within them: a model id, a
            `StepExecutorConfiguration`, a `Model` object or an executor; None for that of the run or scope. A
            model id or a configuration changes the active executor's configuration, so a run on a `Model`
            object, as in a test, keeps that model.
        step_budget: The budget of each step of the function, steps within it included, with an account of its
            own: the result of `nighthawk_async.budget`, or `BudgetLimits`. As `step_budget` of a scope.
        verify: The checks of whether a block of the function is done, as for `nighthawk_async.scope`: a
            function of a `Proposal`, or several. The checks of the scopes that enclose a call must pass as
            well.
        on_partial: A function, `def` or `async def`, that is called with the `PartialValues` of each block
            while its model's answer streams, and finally with the values that the block is about to commit.
            Calls come one at a time; after a slow call, the next one gets the latest values. An exception
            from it fails the block with `HookError`, and nothing is committed.
        tools: The tools of the function's steps and of steps within them, beside those that are visible
            already; as for `nighthawk_async.scope`.
        skills: The skills of the function's steps and of steps within them, beside those of the scope; as for
            `nighthawk_async.scope`.
        code: What code of the models of the function's steps, and of steps within them, may do: `none`,
            `shown`, `python` or a sandbox; see `StepExecutorConfiguration`. None for that of the scope.
        on: The placement on which every call runs, wherever it comes from; inside a placed call, the function
            runs where it is. The function is at the top level of a module, so that workers can import it,
            and no generator. One with `def` is called in worker threads of the placement's event loop.

    Raises:
        NaturalParseError: The source cannot be read, there is no natural block, a block is malformed, or a
            nested function has a block and is no natural function.
        NighthawkError: A check, or `on_partial`, cannot be called, the budget is none, a text is no
            model id, the level of code is none, or a generator has `on`. A model that does not exist is
            reported when the function is called.
        ToolRegistrationError: A tool cannot be offered. A name that is taken is reported when the function is
            called.
        TypeError: `on` is no placement.
    """
    placement = None if on is None else checked_placement(on)
    options = _Options(
        policies=(*_checked_policies(verify), *_checked_callback(on_partial)),
        make_scope=scope_maker(model, step_budget, tools, skills, code),
    )

    def decorate(target: Function) -> Function:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        return _decorate_any(target, frame, options, placement)

    if function is None:
        return decorate
    return _decorate_any(function, sys._getframe(1), options, placement)  # pyright: ignore[reportPrivateUsage]


_special_options: WeakKeyDictionary[FunctionType, _Options] = WeakKeyDictionary()
"""The options of natural functions that have any."""


def _checked_policies(verify: "Verify") -> tuple[Policy, ...]:
    """Return the policies of the function, which apply only to its own steps."""
    if verify == ():
        return ()
    from .policies.oversight.policy import policies_of_function  # here, because few functions have one

    return policies_of_function(verify)


def _checked_callback(on_partial: OnPartial | None) -> tuple[Policy, ...]:
    """Return the callback as a policy, which applies only to its function's steps."""
    if on_partial is None:
        return ()
    from .policies.hooks.policy import policy_of_callback  # here, because few functions have one

    return (policy_of_callback(on_partial),)


def scope_maker(
    model: ExecutorChoice | None,
    budget: "BudgetLimits | Budget | None",
    tools: Sequence[ToolSource] | None = None,
    skills: "skill_types.SkillSource | None" = None,
    code: CodeLevelName | CodeLevel | None = None,
) -> "Callable[[], Scope] | None":
    """Return a function that makes the scope of a step with these settings; None if there are none.

    Raises:
        NighthawkError: The budget is none, a text is no model id, or there is no such level of code.
        ToolRegistrationError: A tool cannot be offered.
    """
    if model is None and budget is None and tools is None and skills is None and code is None:
        return None
    if isinstance(model, str):
        checked_model_id(model)
    from .kernel.tool_sets import sets_of  # here, because few functions have a scope of their own
    from .scopes import scope

    sets = None if tools is None else sets_of(tools)
    offered = None if skills is None else skill_types.skills_of(skills)
    executor = None if model is None else FunctionExecutor(model)
    step_budget = UNSET if budget is None else _step_budget(budget)
    level = UNSET if code is None else _checked_level(code)

    def make_scope() -> Scope:
        inner = None if executor is None else executor.inside(get_step_executor())
        return scope(model=inner, tools=sets, skills=offered, step_budget=step_budget, code=level)

    return make_scope


def _checked_level(code: CodeLevelName | CodeLevel) -> CodeLevelName | CodeLevel:
    from .policies.code_levels.levels import checked_level  # here, because few functions set a level

    return checked_level(code)


def _step_budget(given: "BudgetLimits | Budget") -> "Budget":
    from .policies.budgets.budget import Budget, budget
    from .policies.budgets.terms import BudgetLimits

    if isinstance(given, Budget):
        return given
    if not isinstance(cast("object", given), BudgetLimits):
        raise NighthawkError(
            "the budget of a step must be the result of nighthawk_async.budget, or "
            f"nighthawk_async.BudgetLimits, not {given!r}"
        )
    return budget(**dict(cast("Any", given.limited())))


def _decorate_any(
    function: Function, frame: FrameType | None, options: _Options, placement: Placement | None
) -> Function:
    if isinstance(function, staticmethod | classmethod):
        wrapped = cast("Any", function)
        return type(wrapped)(_decorate_any(wrapped.__func__, frame, options, placement))
    natural = _decorate(function, frame, options)
    if placement is not None:
        natural = placed_function(natural, placement)
    return cast("Function", natural)


def _decorate(function: object, frame: FrameType | None, options: _Options) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise NaturalParseError(
            f"@natural_function needs a Python function, not {function!r}; put it nearest to the function, "
            "below other decorators"
        )
    transformed = transform_function(function)
    _refuse_inert(function, transformed.nested)
    return _bound(function, transformed, _capture(function, transformed, frame), options)


def _bound(
    function: FunctionType,
    transformed: TransformedFunction,
    captured: dict[str, object],
    options: _Options,
) -> FunctionType:
    """Return the natural function of a transformed one, with the values that it has captured."""
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return_check = None
    if _promises_a_type(function):
        return_check = ReturnCheck(
            function,
            captured=MappingProxyType(captured),
            is_generator=is_generator,
        )
    site = NaturalSite(
        module_globals=function.__globals__,
        annotations=partial(annotations_of, function),
        names=partial(names_in_scope, function),
        is_generator=is_generator,
        captured=MappingProxyType(captured),
        policies=options.policies,
        return_check=return_check,
    )
    run_step = _run_step(transformed, site, options.make_scope)
    call_entry = CallEntry(
        function,
        is_generator=is_generator,
        return_check=return_check,
        argument_check=ArgumentCheck(function, captured=site.captured),
    )
    bound = transformed.bind(function, run_step=run_step, call_entry=call_entry)

    def bind_call(call: "function_calls.FunctionCall") -> FunctionType:
        noting = around_calls.noting_commits(run_step, transformed.blocks, call)
        return transformed.bind(function, run_step=noting, call_entry=InnerCall(return_check))

    call_entry.make_around = lambda policies, scope, arguments: around_calls.AroundCall(
        bound, bind_call, policies, scope, arguments
    )
    if function.__qualname__.endswith(f"<locals>.{function.__name__}"):
        captured[function.__name__] = bound  # the future value of the name, where it has no value yet
    if options.policies or options.make_scope:
        _special_options[bound] = options
    return bound


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a natural function with other code: with the same variables and options, but other blocks.

    Args:
        function: A natural function, as its decorator has made it.
        code: The code of the undecorated function, compiled from a changed text of its file, which
            `linecache` has under the file name of the code.

    Raises:
        NaturalParseError: A block is malformed.
    """
    original = cast("FunctionType", cast("Any", function).__wrapped__)
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    changed = FunctionType(code, original.__globals__, original.__name__, original.__defaults__, closure)
    text = changed.__doc__
    copy_attributes(original, changed)
    changed.__doc__ = text
    options = _special_options.get(function) or _Options(policies=(), make_scope=None)
    return _bound(changed, transform_function(changed), dict(captured_names(function)), options)


def _refuse_inert(function: FunctionType, nested: Sequence[NestedBlock]) -> None:
    """Raise for a nested block that nothing would ever run.

    Raises:
        NaturalParseError: A nested function or class has a block, and is certainly no natural function.
    """
    for each in nested:
        if not each.is_class and any(_may_be_natural(name, function) for name in each.decorators):
            continue
        if each.is_class:
            problem = f"the body of the class {each.name} holds a natural block, which nothing runs"
            remedy = "move it into a method with @natural_function"
        else:
            problem = f"the nested function {each.name}() has a natural block, which nothing runs"
            remedy = "decorate it with @natural_function too"
        raise NaturalParseError(
            f"{function.__qualname__}(): {problem}; {remedy}, or take the line 'natural' away",
            filename=function.__code__.co_filename,
            line=each.line,
        )


def _may_be_natural(name: str | None, function: FunctionType) -> bool:
    """Whether the value of a name from outside a function may make natural functions."""
    if name is None:
        return True
    root, *fields = name.split(".")
    variables = {**vars(builtins), **function.__globals__, **variables_of(function)}
    value = variables.get(root, UNSET)
    for field in fields:
        value = getattr(value, field, UNSET)
    if not isinstance(value, FunctionType | BuiltinFunctionType | type):
        return True  # unknown, or an object of any kind
    module = value.__module__ or ""
    is_known = module.partition(".")[0] in ("nighthawk_async", *sys.stdlib_module_names)
    return module == __name__ or not is_known


def _promises_a_type(function: FunctionType) -> bool:
    """Whether a function annotates its return value. An async generator returns nothing."""
    if inspect.isasyncgenfunction(function):
        return False
    return read_annotations(function).get("return", object) not in (object, Any, Self)


def _run_step(
    transformed: TransformedFunction, site: NaturalSite, make_scope: "Callable[[], Scope] | None"
) -> RunStep:
    blocks = transformed.blocks
    run, run_sync = step_runners(make_scope)
    if site.is_generator:
        return _run_generator_step(blocks, site, run, run_sync)
    return BlockRunner(blocks, site, run if blocks[0].is_async else run_sync)


def step_runners(make_scope: "Callable[[], Scope] | None") -> tuple[RunBlock, RunBlockFromSync]:
    """Return the functions that run one block, each time in a scope of its own.

    Args:
        make_scope: Makes the scope; None for none.
    """
    if make_scope is None:
        return run_step, run_step_from_sync

    async def run_in_scope(*arguments: Any) -> StepResult:
        async with make_scope():
            return await run_step(*arguments)

    def run_in_scope_from_sync(*arguments: Any) -> StepResult:
        with make_scope():
            return run_step_from_sync(*arguments)

    return run_in_scope, run_in_scope_from_sync


def _run_generator_step(
    blocks: tuple[NaturalBlock, ...], site: NaturalSite, run: RunBlock, run_sync: RunBlockFromSync
) -> RunStep:
    def run_here_sync(index: int, python_locals: Mapping[str, Any], literal: str | None) -> StepResult:
        with python_locals[SCOPE_NAME].active():
            return run_sync(blocks[index], site, python_locals, literal)

    async def run_here(index: int, python_locals: Mapping[str, Any], literal: str | None) -> StepResult:
        with python_locals[SCOPE_NAME].active():
            return await run(blocks[index], site, python_locals, literal)

    return run_here if blocks[0].is_async else run_here_sync


def _capture(
    function: FunctionType, transformed: TransformedFunction, frame: FrameType | None
) -> dict[str, object]:
    """Return the present values of names in enclosing functions that only the texts of blocks mention."""
    captured: dict[str, object] = {
        parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())
    }
    keep_names(function, frame)
    if "<locals>" in function.__qualname__:
        names = transformed.mentioned_names.union(
            *(block.program.words - block.local_names for block in transformed.blocks if block.program)
        )
        for enclosing in enclosing_frames(function.__code__, frame):
            if enclosing.f_code.co_flags & inspect.CO_OPTIMIZED:  # a block sees no names of a class body
                for name in names.intersection(enclosing.f_locals):
                    captured.setdefault(name, enclosing.f_locals[name])
    return captured
