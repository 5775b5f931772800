"""One step from its block to its result (specification 8).

    prepare -> be admitted -> step task group [ step actor | executor ]
        -> conclude [ validate -> hooks -> oversight -> evaluate the return expression -> checks ] -> result

The generated code of the natural function commits the result. Until then no Python
variable has changed. If a policy retries, all of this is one attempt of several.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import cast

from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..errors import ExecutionError
from ..executions import depth_below, find_execution
from ..journal_ports import RunJournal
from ..natural.blocks import NaturalBlock
from ..observation import find_node_writer
from ..threads import call_in_thread
from ..tracing import find_tracing, traced
from ..types.execution import ExecutionRef
from ..types.outcomes import StepOutcome
from .calls import (
    below_place,
    current_place,
    hide_frames_from_pytest,
    inputs_of,
    skips_waits,
    take_step_place,
)
from .commands import is_awaitable
from .conclude import StepResult
from .context import StepExecutor, is_async_executor
from .environment import (
    OPEN_RUNS,
    Environment,
    find_journal,
    get_environment,
    mark_with_execution,
    run_from_sync,
    using_environment,
)
from .fold import Answer, StepEnd, StepFold
from .prepare import CalledBlock, NaturalSite, make_step
from .reports import KernelActivity, ObservedStep
from .run_state import STRETCH, in_own_task, too_deep
from .step import SteerableStep, Step, StepAttempt, admitted
from .usage_meter import LastStep

_NOTHING = nullcontext()
"""The context where nothing traces a step, and nothing is to last as long as it."""


def run_step_from_sync(
    block: NaturalBlock, site: NaturalSite, python_locals: Mapping[str, object], literal: str | None
) -> StepResult:
    """Execute a block of a synchronous natural function; see `run_step`."""
    # Taken here: on the other side of the bridge, each step is in a task of its own.
    place = "" if find_journal() is None else take_step_place(block, python_locals, literal)
    with LastStep(block.step_id) as last:  # in the context of the caller
        return run_from_sync(run_step, block, site, python_locals, literal, place, last)


async def run_step(
    block: NaturalBlock,
    site: NaturalSite,
    python_locals: Mapping[str, object],
    literal: str | None,
    place: str = "",
    last: LastStep | None = None,
) -> StepResult:
    """Execute a block once.

    Args:
        block: The block.
        site: Its site at run time.
        python_locals: The `locals()` at the block.
        literal: The rendered literal of an f-string block; None for a plain literal.
        place: Its place in a run with a journal, if it was taken already; else empty.
        last: The facts to keep for the task, if the caller keeps them.

    Returns:
        The result that the generated code commits and acts on.

    Raises:
        NighthawkError: No run is active, or the run has ended.
        NaturalParseError: The rendered literal is not a natural program.
        NameError: A read binding has no value.
        ExecutionError: The step failed.
        StepAbortedError: Oversight or a hook ended the step.
        StepRejectedError: Oversight or a hook refused the step or its commit.
        HookError: A hook, a check or oversight failed.
        ModelError: A model request failed.
        BudgetExceededError: A budget has no room for it.
        NestedStepLimitError: It would be nested in too many steps.
    """
    if (elsewhere := OPEN_RUNS.find_elsewhere()) is not None:
        with elsewhere.active():
            return await run_step(block, site, python_locals, literal, place, last)
    caller = find_execution()
    depth = depth_below(caller)
    with last or LastStep(block.step_id) as last:
        outer = get_environment()
        if outer.journal is not None and not place:
            place = take_step_place(block, python_locals, literal)
        called = CalledBlock(block, site, python_locals, literal, caller, depth)
        execution = _BlockExecution(outer, called, place, last)
        begins_stretch = depth > 0 and depth % STRETCH == 0
        return await in_own_task(execution.run) if begins_stretch else await execution.run()


class BlockRunner:
    """Runs the blocks of one function; the generated code names each by its index.

    Args:
        blocks: The blocks.
        site: Their site at run time.
        run: `run_step`, `run_step_from_sync`, or one of them in a scope.
    """

    __slots__ = ("_blocks", "_run", "_site")

    def __init__(self, blocks: Sequence[NaturalBlock], site: NaturalSite, run: Callable[..., object]) -> None:
        self._blocks = blocks
        self._site = site
        self._run = run

    def __call__(self, index: int, python_locals: Mapping[str, object], literal: str | None) -> object:
        """Run a block, or return the coroutine that does."""
        return self._run(self._blocks[index], self._site, python_locals, literal)


class _BlockExecution:
    """The execution of a block: one step, or several attempts at it."""

    __slots__ = ("_called", "_last", "_outer", "_place")

    def __init__(self, outer: Environment, called: CalledBlock, place: str, last: LastStep) -> None:
        self._outer = outer
        self._called = called
        self._place = place
        self._last = last

    def run(self) -> Awaitable[StepResult]:
        """Execute the block, in several attempts if a policy asks for them."""
        execute = self._execute_at_place if self._place else self._execute
        repeating = self._outer.policies.repeating
        return (
            execute() if repeating is None else repeating.execute_block(self._called.block.step_id, execute)
        )

    async def _execute_at_place(self, attempt: StepAttempt | None = None, /) -> StepResult:
        """Execute it once, at its place in a run with a journal."""
        with below_place(self._place if attempt is None else f"{self._place}/attempt[{attempt.number}]"):
            return await self._execute(attempt)

    async def _execute(self, attempt: StepAttempt | None = None, /) -> StepResult:
        """Execute it once; an attempt, one of several, may have an environment of its own."""
        outer = self._outer if attempt is None else get_environment()
        called, number = self._called, None if attempt is None else attempt.number
        execution_ref = _identity_of(outer, called)
        tracing, parent = find_tracing(), find_node_writer()
        activity = KernelActivity(name="step", execution_ref=execution_ref, attempt=number)
        with (
            _NOTHING if tracing is None else traced(activity) as span,
            ObservedStep(activity, span, parent) as observed,
        ):
            try:
                if called.depth >= outer.max_depth:
                    raise too_deep(called.depth, outer.max_depth, step_id=called.block.step_id)
                step = make_step(outer, execution_ref, called)
                self._begin_attempt(outer, step)
                observed.begin(step)
                if attempt is not None:
                    attempt.prepare(step.actor)
                environment = outer.of_step(step, called.block.address, tracing)
                execution = _StepExecution(outer, environment, step, called.site, attempt)
                work = execution.run() if step.limit_wait is None else step.limit_wait(execution.run)
                control = observed.control
                outcome, result = await (work if control is None else control.execute(work))
            except Exception as error:
                mark_with_execution(error, execution_ref)
                hide_frames_from_pytest()
                raise
            if result.exception is not None:
                mark_with_execution(result.exception, execution_ref)
            observed.end(outcome, result)
            self._last.outcome = outcome.kind
            return result

    def _begin_attempt(self, outer: Environment, step: Step) -> None:
        """Keep the facts of the step for its task, and what the journal is to record of it."""
        called = self._called
        self._last.conversation = None  # that of the attempt before
        self._last.usage_meter = step.actor.progress.usage_meter
        step.kept = self._last
        if outer.journal is not None:
            step.place = current_place()
            inputs = inputs_of(step.context, called.block, called.python_locals, called.literal)
            step.record = outer.journal.begin_step(step.place, step.program, inputs)


class _StepExecution:
    """The execution of one step that is prepared: it is admitted, asks the executor, and concludes."""

    __slots__ = (
        "_attempt",
        "_environment",
        "_note_begin",
        "_outer",
        "_site",
        "_steerable",
        "_step",
        "_task_group",
    )

    _note_begin: Callable[[], None] | None
    _steerable: SteerableStep
    _task_group: TaskGroup

    def __init__(
        self,
        outer: Environment,
        environment: Environment,
        step: Step,
        site: NaturalSite,
        attempt: StepAttempt | None,
    ) -> None:
        self._outer = outer
        self._environment = environment
        self._step = step
        self._site = site
        self._attempt = attempt

    async def run(self, note_begin: Callable[[], None] | None = None) -> StepEnd:
        """Wait for admission; then serve the actor while the executor works."""
        self._note_begin = note_begin
        step, actor, run_state = self._step, self._step.actor, self._outer.run_state
        parent = self._outer.step
        step.reviewers = self._environment.policies.overriding["around_commit"]
        async with BareTaskGroup() as self._task_group:
            with SteerableStep(actor) as self._steerable:
                if self._attempt is not None:
                    await self._attempt.wait(actor, is_skipped=skips_waits())
                slot = None if parent is None else parent.actor.slot
                async with admitted(actor, run_state.admission, slot), run_state.using_resources():
                    self._environment.usage_meter.count_step()
                    with using_environment(self._environment), step.execution, actor.in_flight():
                        return await self._execute_and_close()

    async def _execute_and_close(self) -> StepEnd:
        """Execute the admitted step, and close what belongs to it."""
        step = self._step
        leaving: BaseException | None = None
        try:
            if around := self._environment.policies.overriding["around_step"]:
                return await StepFold(around, step, self).run()
            self.begin()
            return await self.execute(None)
        except BaseException as error:
            leaving = error
            raise
        finally:
            step.actor.close()
            step.kept = None  # whatever began within the step still refers to the step
            if step.partial_listeners is not None:
                step.partial_listeners.close()
            if step.actor.keeper is not None:
                await step.actor.keeper.close(leaving)
            del leaving  # so that the error and this frame do not hold each other

    def begin(self) -> None:
        """End the wait: the actor serves in the current context."""
        if self._note_begin is not None:
            self._note_begin()
        self._step.actor.serve_in(self._task_group)

    async def execute(self, answer: Answer | None) -> StepEnd:
        """Ask the executor, unless a policy has answered, and conclude the step."""
        environment, step = self._environment, self._step
        async with _NOTHING if step.alongside is None else step.alongside:
            activity = KernelActivity(name="step_executor", execution_ref=environment.execution_ref)
            with _NOTHING if environment.tracing is None else traced(activity):
                given: object = answer or await _ask_executor(environment, step)
                await self._steerable.end()
            outcome, bindings = _checked_answer(given, environment.step_executor, step.context.step_id)
            result = await step.conclude(outcome, bindings, is_last=True)
            if result.kind == "pass" and step.context.lost_names:
                step.warn_of_lost(environment.run_state.warn_once)
            if step.partial_listeners is not None:  # a tool may have made them
                step.partial_listeners.end(result)
            return StepEnd(outcome, result)


def _ask_executor(environment: Environment, step: Step) -> Awaitable[object]:
    """Ask the executor for the outcome and its values; a run with a journal may have recorded them."""
    executor, journal, place = environment.step_executor, environment.journal, step.place
    if journal is None or place is None:
        return _call_executor(executor, step)
    return _find_or_make_answer(journal, place, executor, step)


async def _find_or_make_answer(journal: RunJournal, place: str, executor: StepExecutor, step: Step) -> object:
    types = step.context.binding_types
    recorded = journal.find_answer(place, types)
    if recorded is not None:
        await journal.deliver_answer(place)
        return step.accept_recorded(recorded)
    await journal.begin_work(place, step.record)
    answer = await _call_executor(executor, step)
    journal.keep_answer(place, answer, types, step.converted_names(answer))
    return answer


async def _call_executor(executor: StepExecutor, step: Step) -> object:
    context = step.context
    names = list(context.write_names)
    kinds: tuple[str, ...] = context.allowed_kinds
    if is_async_executor(executor):
        answer: object = executor.run_step_async(
            processed_natural_program=step.program,
            step_context=context,
            binding_names=names,
            allowed_step_kinds=kinds,
        )
        if not is_awaitable(answer):
            raise ExecutionError(
                f"step {context.step_id}: {type(executor).__name__}.run_step_async must be `async def`"
            )
        return await answer
    return await call_in_thread(
        lambda: executor.run_step(
            processed_natural_program=step.program,
            step_context=context,
            binding_names=names,
            allowed_step_kinds=kinds,
        ),
    )


def _checked_answer(
    answer: object, executor: StepExecutor, step_id: str
) -> tuple[StepOutcome, Mapping[str, object]]:
    if not isinstance(answer, tuple) or len(cast("tuple[object, ...]", answer)) != 2:
        remedy = "an executor must return a tuple of a StepOutcome and a mapping of bindings"
        returned = f"step {step_id}: {type(executor).__name__} returned"
        message = f"{returned} {answer!r}; {remedy}"
        raise ExecutionError(message).without_content(f"{returned} something else; {remedy}")
    return cast("tuple[StepOutcome, Mapping[str, object]]", answer)


def _identity_of(outer: Environment, called: CalledBlock) -> ExecutionRef:
    """The identity of a new step in an environment."""
    return ExecutionRef(
        run_id=outer.execution_ref.run_id,
        scope_id=outer.execution_ref.scope_id,
        step_id=called.block.step_id,
        execution_id=os.urandom(16).hex(),
        parent_execution_id=None if called.caller is None else called.caller.id,
    )
