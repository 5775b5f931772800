"""One step from its block to its result (specification 8). Floor 3.

    prepare -> be admitted -> step task group [ step actor | executor ]
        -> conclude [ validate -> hooks -> oversight -> evaluate what is returned -> checks ] -> result

The generated code of the natural function commits the result. Until then nothing has reached a Python
variable. Under a resilience baseline, all of this is one attempt of several (`attempts.attempts`).
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from ..actors import BareTaskGroup
from ..errors import ExecutionError, NaturalParseError
from ..executions import Execution, find_execution
from ..natural.blocks import NaturalBlock
from ..natural.program import NaturalProgram, parse_program
from ..threads import call_in_thread
from ..types.execution import ExecutionRef
from ..types.outcomes import StepOutcome
from .awaitable import is_awaitable
from .bridge import run_from_sync
from .budgets.steps import begin_in_time, carry_out_in_time, carry_out_within
from .conclude import StepResult
from .environment import Environment, get_environment, using_environment
from .execution_marks import mark_with_execution
from .mutation.guard import MutationGuard
from .nesting import begins_stretch, current_depth, in_own_task, too_deep
from .policy_doors import (
    call_guard_of,
    carry_out_with_events,
    carry_out_within_timeout,
    commit_inspector_of,
    partial_delivery_of,
    verifier_of,
)
from .prepare import NaturalSite, prepare_step, step_id_of
from .step import Step
from .step_actor import StepActor
from .step_control import SteerableStep, admitted
from .step_executor import StepExecutor, is_async_executor, shows_named_only
from .told_step import ToldStep
from .tracing import identity_attributes, record_corrections, record_failed, record_outcome, span

if TYPE_CHECKING:
    from .attempts.attempts import StepAttempt

__all__ = ["run_step", "run_step_from_sync"]


def run_step_from_sync(
    block: NaturalBlock, site: NaturalSite, python_locals: Mapping[str, object], literal: str | None
) -> StepResult:
    """Carry out a block of a synchronous natural function; see `run_step`."""
    return run_from_sync(run_step, block, site, python_locals, literal)


async def run_step(
    block: NaturalBlock, site: NaturalSite, python_locals: Mapping[str, object], literal: str | None
) -> StepResult:
    """Carry out a block once.

    Args:
        block: The block.
        site: Where it stands.
        python_locals: What `locals()` gave at the block.
        literal: The rendered literal of an f-string block; None for a plain literal.

    Returns:
        What the generated code commits and acts on.

    Raises:
        NighthawkError: No run is active, or the run has ended.
        NaturalParseError: The rendered literal is no natural program.
        NameError: A read binding has no value.
        ExecutionError: The step failed.
        StepAbortedError: Oversight, or a hook, ended the step.
        StepRejectedError: Oversight, or a hook, refused the step or its commit.
        HookError: A hook, a check or oversight failed.
        ModelError: A model request failed.
        BudgetExceededError: A budget has no room for it.
        NestedStepLimitError: It would be within too many steps.
    """
    depth = current_depth()
    carry_out = partial(_carry_out_once, block, site, python_locals, literal, depth)
    if begins_stretch(depth):
        return await in_own_task(partial(_carry_out_attempts, block, carry_out))
    return await _carry_out_attempts(block, carry_out)


def _carry_out_attempts(
    block: NaturalBlock, carry_out: Callable[..., Awaitable[StepResult]]
) -> Awaitable[StepResult]:
    outer = get_environment()
    resilience = outer.policies.resilience
    if resilience is None:
        return carry_out(outer)
    from .attempts.attempts import carry_out_attempts  # here, because of what policies.py says

    return carry_out_attempts(outer, step_id_of(block), resilience, carry_out)


async def _carry_out_once(
    block: NaturalBlock,
    site: NaturalSite,
    python_locals: Mapping[str, object],
    literal: str | None,
    depth: int,
    outer: Environment,
    attempt: "StepAttempt | None" = None,
) -> StepResult:
    """Carry out a block that has so many steps around it; an attempt is one of several."""
    execution_ref = _identity(outer, block)
    step_extent = span("nighthawk.step", identity_attributes(execution_ref), has_own_status=True)
    with step_extent as step_span, ToldStep(execution_ref) as told:
        try:
            if depth >= outer.max_depth:
                raise too_deep(depth, outer.max_depth, step_id=step_id_of(block))
            step = _prepare(outer, execution_ref, block, site, python_locals, literal)
            told.begin(step, attempt)
            if attempt is not None:
                attempt.prepare(step.actor, step_span)
            run_in_task_group = partial(_run_in_task_group, outer, step, block.address, attempt, site)
            outcome, result = await told.carry_out(begin_in_time(outer.policies.budgets, run_in_task_group))
        except Exception as error:
            mark_with_execution(error, execution_ref)
            record_failed(step_span, error)
            raise
        mark_with_execution(result.exception, execution_ref)
        record_outcome(step_span, outcome)
        told.end(outcome, result)
        return result


def _identity(outer: Environment, block: NaturalBlock) -> ExecutionRef:
    parent = find_execution()
    return ExecutionRef(
        run_id=outer.execution_ref.run_id,
        scope_id=outer.execution_ref.scope_id,
        step_id=step_id_of(block),
        execution_id=os.urandom(16).hex(),
        parent_execution_id=None if parent is None else parent.id,
    )


def _prepare(
    outer: Environment,
    execution_ref: ExecutionRef,
    block: NaturalBlock,
    site: NaturalSite,
    python_locals: Mapping[str, object],
    literal: str | None,
) -> Step:
    program = block.program
    if program is None:
        program = _parse_rendered(block, cast("str", literal))
    context = prepare_step(
        block=block,
        program=program,
        site=site,
        python_locals=python_locals,
        parent=None if outer.step is None else outer.step.context,
        implicit_references=outer.implicit_references,
        execution_ref=execution_ref,
    )
    if shows_named_only(outer.step_executor):
        from .visible_names import hide_unnamed  # here, because few programs want it

        hide_unnamed(context, block, site, outer.implicit_references)
    guard = MutationGuard(
        context, mode=outer.run_state.concurrent_mutation, filename=block.filename, line=block.line
    )
    outer_actor = None if outer.step is None else outer.step.actor
    return Step(
        actor=StepActor(context, guard=guard, call_guard=call_guard_of(outer, context), outer=outer_actor),
        program=program.text,
        is_interpolated=block.program is None,
        verify=verifier_of(outer, site.verifications, step_id=context.step_id, program=program.text),
        execution=Execution(cast("str", execution_ref.execution_id)),
    )


def _parse_rendered(block: NaturalBlock, literal: str) -> NaturalProgram:
    """The program of an f-string block, which holds values; so does the text of an error about it."""
    try:
        return parse_program(literal, filename=block.filename, line=block.line)
    except NaturalParseError as error:
        error.without_content(f"{block.filename}:{block.line}: the rendered block is no natural program")
        raise


async def _run_in_task_group(
    outer: Environment,
    step: Step,
    block_address: str,
    attempt: "StepAttempt | None",
    site: NaturalSite,
    begin: Callable[[], None],
) -> tuple[StepOutcome, StepResult]:
    """Once the step is admitted, and so begins, serve the actor while the executor works."""
    run_state, actor = outer.run_state, step.actor
    around = None if outer.step is None else outer.step.actor.place
    environment = replace(
        outer,
        execution_ref=step.context.execution_ref,
        step=step,
        step_path=(*outer.step_path, block_address),
        policies=outer.policies.of_step(),
    )
    step.inspect = commit_inspector_of(environment, step)
    delivery = step.partial_listeners = partial_delivery_of(environment, step, site.on_partial)
    async with BareTaskGroup() as task_group:
        with SteerableStep(actor) as steerable:
            if attempt is not None:
                await attempt.wait(actor)
            async with admitted(actor, run_state.admission, around), run_state.using_resources():
                environment.usage_meter.count_step()
                actor.tell_admitted()
                with using_environment(environment), step.execution, actor.in_flight():
                    actor.serve_in(task_group)
                    try:
                        carry_out = partial(_carry_out, environment, step, steerable)
                        if delivery is not None:
                            carry_out = partial(delivery.calling_while, carry_out)
                        if attempt is not None:
                            carry_out = partial(carry_out_within_timeout, environment, carry_out)
                        in_budgets = partial(carry_out_within, environment, carry_out)
                        begin()
                        in_time = partial(carry_out_in_time, environment.policies.budgets)
                        return await carry_out_with_events(environment, step, in_budgets, in_time=in_time)
                    finally:
                        record_corrections(actor.progress.corrections)
                        actor.close()
                        if step.partial_listeners is not None:
                            step.partial_listeners.close()


async def _carry_out(
    environment: Environment, step: Step, steerable: SteerableStep
) -> tuple[StepOutcome, StepResult]:
    with span("nighthawk.step_executor", identity_attributes(environment.execution_ref)):
        answer = await _call_executor(environment.step_executor, step)
        await steerable.end()
    outcome, bindings = _checked_answer(answer, environment.step_executor, step.context.step_id)
    result = await step.conclude(outcome, bindings, is_last=True)
    if step.partial_listeners is not None:
        step.partial_listeners.end(result)
    return outcome, result


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
