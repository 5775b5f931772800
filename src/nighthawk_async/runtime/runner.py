"""One step from its block to its result (specification 8). Floor 3.

    prepare -> step task group [ step actor | executor ] -> conclude -> oversight -> result

The generated code of the natural function commits the result. Until then nothing has reached a Python
variable.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import anyio.to_thread

from ..actors import BareTaskGroup
from ..errors import ExecutionError, ToolBoundaryError
from ..natural.blocks import NaturalBlock
from ..natural.program import NaturalProgram, parse_program
from ..types.outcomes import StepOutcome
from .awaitable import is_awaitable
from .bridge import run_from_sync
from .conclude import StepResult, validate_bindings
from .environment import Environment, get_environment, using_environment
from .mutation_guard import MutationGuard
from .oversight import Reject, Rewrite, StepCommit, inspect_commit
from .prepare import NaturalSite, prepare_step, step_id_of
from .step import Step
from .step_actor import StepActor
from .step_control import steerable
from .step_executor import AsyncStepExecutor, StepExecutor
from .tracing import identity_attributes, record_failed, record_outcome, span

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
        NighthawkError: No run is active, the run has ended, or an oversight hook's answer is no decision.
        NaturalParseError: The rendered literal is no natural program.
        NameError: A read binding has no value.
        ExecutionError: The step failed.
        ModelError: A model request failed.
    """
    outer = get_environment()
    admission = outer.run_state.admission
    if admission is None or outer.step is not None:
        return await _run_admitted_step(outer, block, site, python_locals, literal)
    async with admission.admitted():
        return await _run_admitted_step(outer, block, site, python_locals, literal)


async def _run_admitted_step(
    outer: Environment,
    block: NaturalBlock,
    site: NaturalSite,
    python_locals: Mapping[str, object],
    literal: str | None,
) -> StepResult:
    execution_ref = replace(outer.execution_ref, step_id=step_id_of(block))
    outer.usage_meter.count_step()
    with span("nighthawk.step", identity_attributes(execution_ref)) as step_span:
        try:
            program = block.program
            if program is None:
                program = parse_program(cast("str", literal), filename=block.filename, line=block.line)
            context = prepare_step(
                block=block,
                program=program,
                site=site,
                python_locals=python_locals,
                parent=None if outer.step is None else outer.step.context,
                implicit_references=outer.implicit_references,
                execution_ref=execution_ref,
            )
            guard = MutationGuard(
                context,
                mode=outer.run_state.concurrent_mutation,
                filename=block.filename,
                line=block.line,
            )
            outer_actor = None if outer.step is None else outer.step.actor
            step = Step(actor=StepActor(context, guard=guard, outer=outer_actor), program=program.text)
            environment = replace(
                outer, execution_ref=execution_ref, step=step, step_path=(*outer.step_path, block.address)
            )
            with using_environment(environment), step.actor.in_flight():
                outcome, result = await _run_in_task_group(environment, step, program)
        except Exception as error:
            record_failed(step_span, error)
            raise
        record_outcome(step_span, outcome)
        return result


async def _run_in_task_group(
    environment: Environment, step: Step, program: NaturalProgram
) -> tuple[StepOutcome, StepResult]:
    """Serve the actor while the executor works."""
    async with environment.run_state.using_resources(), BareTaskGroup() as task_group:
        task_group.start_soon(step.actor.serve)
        try:
            return await _carry_out(environment, step, program)
        finally:
            step.actor.close()


async def _carry_out(
    environment: Environment, step: Step, program: NaturalProgram
) -> tuple[StepOutcome, StepResult]:
    context = step.context
    with span("nighthawk.step_executor", identity_attributes(context.execution_ref)):
        async with steerable(step.actor):
            answer = await _call_executor(environment.step_executor, step, program)
    outcome, bindings = _checked_answer(answer, environment.step_executor, context.step_id)
    result = await step.conclude(outcome, bindings)
    return outcome, await _oversee(environment, step, outcome, result)


async def _call_executor(executor: StepExecutor, step: Step, program: NaturalProgram) -> object:
    context = step.context
    names = list(context.write_names)
    kinds: tuple[str, ...] = context.allowed_kinds
    if isinstance(executor, AsyncStepExecutor):
        answer: object = executor.run_step_async(
            processed_natural_program=program.text,
            step_context=context,
            binding_names=names,
            allowed_step_kinds=kinds,
        )
        if not is_awaitable(answer):
            raise ExecutionError(
                f"step {context.step_id}: {type(executor).__name__}.run_step_async must be `async def`"
            )
        return await answer
    return await anyio.to_thread.run_sync(
        partial(
            executor.run_step,
            processed_natural_program=program.text,
            step_context=context,
            binding_names=names,
            allowed_step_kinds=kinds,
        )
    )


def _checked_answer(
    answer: object, executor: StepExecutor, step_id: str
) -> tuple[StepOutcome, Mapping[str, object]]:
    if not isinstance(answer, tuple) or len(cast("tuple[object, ...]", answer)) != 2:
        raise ExecutionError(
            f"step {step_id}: {type(executor).__name__} returned {answer!r}; "
            "an executor must return a tuple of a StepOutcome and a mapping of bindings"
        )
    return cast("tuple[StepOutcome, Mapping[str, object]]", answer)


async def _oversee(
    environment: Environment, step: Step, outcome: StepOutcome, result: StepResult
) -> StepResult:
    if environment.oversight is None:
        return result
    step_id = step.context.step_id
    commit = StepCommit(step_id=step_id, outcome=outcome, bindings=result.bindings)
    decision = await inspect_commit(environment.oversight, commit)
    if isinstance(decision, Reject):
        guidance = f" ({decision.guidance})" if decision.guidance else ""
        raise ExecutionError(
            f"step {step_id}: oversight rejected the commit: {decision.reason}{guidance}"
        ) from ToolBoundaryError(kind="oversight", message=decision.reason, guidance=decision.guidance)
    if isinstance(decision, Rewrite):
        return replace(result, bindings=validate_bindings(step.context, outcome, decision.values))
    return result
