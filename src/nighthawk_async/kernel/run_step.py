"""One step from its block to its result (specification 8).

    prepare -> be admitted -> step task group [ step actor | executor ]
        -> conclude [ validate -> hooks -> oversight -> evaluate the return expression -> checks ] -> result

The generated code of the natural function commits the result. Until then no Python
variable has changed. If a policy retries, all of this is one attempt of several.
"""

import builtins
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..errors import ExecutionError, NaturalParseError
from ..executions import Execution, depth_below, find_execution
from ..natural.blocks import NaturalBlock
from ..natural.program import NaturalProgram, parse_program
from ..threads import call_in_thread
from ..tracing import find_tracing, traced
from ..types.execution import ExecutionRef
from ..types.outcomes import StepOutcome
from .actor import StepActor
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
    Environment,
    find_journal,
    get_environment,
    mark_with_execution,
    run_from_sync,
    using_environment,
)
from .fold import Answer, StepEnd, StepFold
from .partial_values import PartialDelivery
from .policy import Policies
from .prepare import NaturalSite, prepare_step, step_id_of
from .reports import KernelActivity, ObservedStep
from .run_state import begins_stretch, in_own_task, too_deep
from .skill_scope import ActiveSkills, program_with_skills, references_to_skills, take_named_skills
from .step import ExecuteAttempt, SteerableStep, Step, StepAttempt, Verify, admitted
from .usage_meter import LastStep


class _Block(NamedTuple):
    """A block that is to be executed, with what its place in the program gives it; see `run_step`."""

    block: NaturalBlock
    site: NaturalSite
    python_locals: Mapping[str, object]
    literal: str | None
    caller: Execution | None
    depth: int


def run_step_from_sync(
    block: NaturalBlock, site: NaturalSite, python_locals: Mapping[str, object], literal: str | None
) -> StepResult:
    """Execute a block of a synchronous natural function; see `run_step`."""
    # Taken here: on the other side of the bridge, each step is in a task of its own.
    place = None if find_journal() is None else take_step_place(block, python_locals, literal)
    with LastStep(step_id_of(block)) as last:  # in the context of the caller
        return run_from_sync(run_step, block, site, python_locals, literal, place, last)


async def run_step(
    block: NaturalBlock,
    site: NaturalSite,
    python_locals: Mapping[str, object],
    literal: str | None,
    place: str | None = None,
    last: LastStep | None = None,
) -> StepResult:
    """Execute a block once.

    Args:
        block: The block.
        site: Its site at run time.
        python_locals: The `locals()` at the block.
        literal: The rendered literal of an f-string block; None for a plain literal.
        place: Its place in a run with a journal, if it was taken already.
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
    caller = find_execution()
    depth = depth_below(caller)
    with last or LastStep(step_id_of(block)) as last:
        outer = get_environment()
        called = _Block(block, site, python_locals, literal, caller, depth)
        execute_once: ExecuteAttempt = partial(_execute_once, outer, called, last)
        if outer.journal is not None:
            place = place or take_step_place(block, python_locals, literal)
            execute_once = partial(_execute_at, place, execute_once)
        execute = partial(_execute_attempts, outer.policies, block, execute_once)
        return await in_own_task(execute) if begins_stretch(depth) else await execute()


def _execute_attempts(
    policies: Policies, block: NaturalBlock, execute: ExecuteAttempt
) -> Awaitable[StepResult]:
    for policy in policies.overriding["around_attempts"]:  # one at most
        return policy.around_attempts(step_id_of(block), execute)
    return execute()


async def _execute_at(place: str, execute: ExecuteAttempt, attempt: StepAttempt | None = None) -> StepResult:
    """Execute a block, or an attempt at it, at its place in a run with a journal."""
    with below_place(place if attempt is None else f"{place}/attempt[{attempt.number}]"):
        return await execute(attempt)


async def _execute_once(
    outer: Environment, called: _Block, last: LastStep, attempt: StepAttempt | None = None
) -> StepResult:
    """Execute a block; an attempt, one of several, may have an environment of its own."""
    if attempt is not None:
        outer = get_environment()
    block, depth = called.block, called.depth
    execution_ref = _identity(outer, called.caller, block)
    number = None if attempt is None else attempt.number
    tracing = find_tracing()
    activity = KernelActivity(name="step", execution_ref=execution_ref, attempt=number)
    with (
        nullcontext() if tracing is None else traced(activity) as span,
        ObservedStep(activity, span) as observed,
    ):
        try:
            if depth >= outer.max_depth:
                raise too_deep(depth, outer.max_depth, step_id=step_id_of(block))
            outer, step = _prepare(outer, execution_ref, called)
            last.begin_attempt(step.actor.progress.usage_meter)
            step.kept = last
            if outer.journal is not None:
                step.place = current_place()
                inputs = inputs_of(step.context, block, called.python_locals, called.literal)
                step.record = outer.journal.begin_step(step.place, step.program, inputs)
            observed.begin(step)
            if attempt is not None:
                attempt.prepare(step.actor)
            environment = outer.of_step(step, block.address, tracing)
            work = partial(_run_in_task_group, outer, environment, step, attempt, called.site)
            outcome, result = await observed.execute(_around_waiting(outer.policies, work))
        except Exception as error:
            mark_with_execution(error, execution_ref)
            hide_frames_from_pytest()
            raise
        mark_with_execution(result.exception, execution_ref)
        observed.end(outcome, result)
        last.outcome = outcome.kind
        return result


def _around_waiting(
    policies: Policies, work: Callable[[Callable[[], None]], Awaitable[StepEnd]]
) -> Awaitable[StepEnd]:
    for policy in reversed(policies.overriding["around_waiting"]):
        work = partial(policy.around_waiting, work)
    return work(_ignore_begin)


def _ignore_begin() -> None:
    """Do nothing: no policy waits for the beginning."""


def _identity(outer: Environment, caller: Execution | None, block: NaturalBlock) -> ExecutionRef:
    return ExecutionRef(
        run_id=outer.execution_ref.run_id,
        scope_id=outer.execution_ref.scope_id,
        step_id=step_id_of(block),
        execution_id=os.urandom(16).hex(),
        parent_execution_id=None if caller is None else caller.id,
    )


def _prepare(outer: Environment, execution_ref: ExecutionRef, called: _Block) -> tuple[Environment, Step]:
    """Return the environment that the step is to run in, and the step."""
    block, site, python_locals, literal, caller, _ = called
    program = block.program
    if program is None:
        program = _parse_rendered(block, cast("str", literal))
    context = prepare_step(
        block=block,
        program=program,
        site=site,
        python_locals=python_locals,
        parent=None if outer.step is None else outer.step.context,
        implicit_references=_implicit_references(outer, block, site),
        execution_ref=execution_ref,
    )
    policies, text = outer.policies, program.text
    for policy in policies.overriding["prepare"]:
        policy.prepare(context, block)
    if named := take_named_skills(block, context):
        text = program_with_skills(text, named)
        for skill in named.values():
            policies = skill.narrowed(policies)
    if named or outer.skills or outer.active_skills:
        active = ActiveSkills(outer.active_skills, named)
        outer = replace(outer, policies=policies, active_skills=active)
    guards = [
        guard
        for policy in policies.overriding["guard_commands"]
        if (guard := policy.guard_commands(context, block))
    ]
    call_guards = [
        guard for policy in policies.overriding["guard_calls"] if (guard := policy.guard_calls(context))
    ]
    return outer, Step(
        actor=StepActor(
            context,
            guard=guards[0] if guards else None,
            call_guard=call_guards[0] if call_guards else None,
            parent=None if outer.step is None else outer.step.actor,
            keeps_places=outer.journal is not None,
        ),
        program=text,
        is_interpolated=block.program is None or bool(named),
        verify=_verifier(policies, site, step_id=context.step_id, program=text),
        execution=Execution(
            cast("str", execution_ref.execution_id), None if caller is None else caller.in_progress
        ),
    )


def _implicit_references(outer: Environment, block: NaturalBlock, site: NaturalSite) -> Mapping[str, object]:
    """The references of the scope, and those of its skills that the block names."""
    if not outer.skills:
        return outer.implicit_references
    variables = (outer.implicit_references, site.module_globals, vars(builtins))
    return {**outer.implicit_references, **references_to_skills(outer.skills, block.read_names, variables)}


def _verifier(policies: Policies, site: NaturalSite, *, step_id: str, program: str) -> Verify | None:
    if site.policies:
        policies = policies.of_function(site.policies)
    for policy in policies.overriding["verifier"]:
        return policy.verifier(step_id=step_id, program=program)
    return None


def _parse_rendered(block: NaturalBlock, literal: str) -> NaturalProgram:
    """The program of an f-string block. It holds values, so an error about it gets a text without content."""
    try:
        return parse_program(literal, filename=block.filename, line=block.line)
    except NaturalParseError as error:
        error.without_content(f"{block.filename}:{block.line}: the rendered block is no natural program")
        raise


async def _run_in_task_group(
    outer: Environment,
    environment: Environment,
    step: Step,
    attempt: StepAttempt | None,
    site: NaturalSite,
    begin: Callable[[], None],
) -> StepEnd:
    """Wait for admission; then serve the actor while the executor works."""
    run_state, actor = outer.run_state, step.actor
    parent_slot = None if outer.step is None else outer.step.actor.slot
    step.past = outer.past
    step.reviewers = environment.policies.overriding["around_commit"]
    has_listeners = site.on_partial is not None or actor.node is not None or environment.partial_sinks
    if has_listeners or environment.policies.listeners:
        step.partial_listeners = PartialDelivery(environment, step, site.on_partial)
    async with BareTaskGroup() as task_group:
        with SteerableStep(actor) as steerable:
            if attempt is not None:
                await attempt.wait(actor, is_skipped=skips_waits())
            async with admitted(actor, run_state.admission, parent_slot), run_state.using_resources():
                environment.usage_meter.count_step()
                actor.note_admitted()
                with using_environment(environment), step.execution, actor.in_flight():
                    execute = partial(_execute, environment, step, steerable)
                    serve = partial(_begin_serving, begin, actor, task_group)
                    return await _execute_and_close(environment.policies, step, serve, execute)


async def _execute_and_close(
    policies: Policies,
    step: Step,
    serve: Callable[[], None],
    execute: Callable[[Answer | None], Awaitable[StepEnd]],
) -> StepEnd:
    """Execute an admitted step, and close what belongs to it."""
    leaving: BaseException | None = None
    try:
        if around := policies.overriding["around_step"]:
            return await StepFold(around, step, serve, execute).run()
        serve()
        return await execute(None)
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


def _begin_serving(begin: Callable[[], None], actor: StepActor, task_group: TaskGroup) -> None:
    begin()
    actor.serve_in(task_group)


async def _execute(
    environment: Environment, step: Step, steerable: SteerableStep, answer: Answer | None = None
) -> StepEnd:
    """Ask the executor, unless a policy has answered, and conclude the step."""
    listeners = step.partial_listeners
    async with nullcontext() if listeners is None else listeners.notifying():
        activity = KernelActivity(name="step_executor", execution_ref=environment.execution_ref)
        with nullcontext() if environment.tracing is None else traced(activity):
            given: object = answer or await _find_or_make_answer(environment, step)
            await steerable.end()
        outcome, bindings = _checked_answer(given, environment.step_executor, step.context.step_id)
        result = await step.conclude(outcome, bindings, is_last=True)
        if result.kind == "pass" and step.context.lost_names:
            step.warn_of_lost(environment.run_state.warn_once)
        if step.partial_listeners is not None:  # a tool may have made them
            step.partial_listeners.end(result)
        return StepEnd(outcome, result)


async def _find_or_make_answer(environment: Environment, step: Step) -> object:
    """Return the answer of the executor, or its record in the journal of the run."""
    journal, place, types = environment.journal, step.place, step.context.binding_types
    if journal is None or place is None:
        return await _call_executor(environment.step_executor, step)
    recorded = journal.find_answer(place, types)
    if recorded is not None:
        await journal.deliver_answer(place)
        return step.accept_recorded(recorded)
    await journal.begin_work(place, step.record)
    answer = await _call_executor(environment.step_executor, step)
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
        partial(
            executor.run_step,
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
