"""`run`: the extent in which steps are carried out (specification 10)."""

from typing import Unpack, cast, get_args

from .errors import NighthawkError
from .policies.arguments import PolicyArguments, with_arguments
from .policies.people.default_handler import find_default_handler
from .runtime.admission import checked_max_concurrent_steps
from .runtime.environment import find_environment
from .runtime.nesting import DEFAULT_MAX_DEPTH
from .runtime.policies import NO_POLICIES, Policies
from .runtime.policy import InnerScope
from .runtime.run import Run
from .runtime.run_state import SyncBackend
from .runtime.step_executor import StepExecutor


def run(
    step_executor: StepExecutor,
    *,
    run_id: str | None = None,
    sync_backend: SyncBackend = "trio",
    max_concurrent_steps: int | None = None,
    max_depth: int = DEFAULT_MAX_DEPTH,
    **policies: Unpack[PolicyArguments],
) -> Run:
    """Carry out the steps inside with an executor.

    Works inside another run too, whose executor and scopes it replaces. Of the policies around it,
    permissions and budgets hold in it as well; of all others it has those that it is given.

    Args:
        step_executor: The executor of the steps.
        run_id: The id of the run; None makes a new one.
        sync_backend: The AnyIO backend of the thread that carries out synchronous natural functions.
        max_concurrent_steps: The number of places for steps in flight; None for any number. Further
            steps wait and are admitted in the order in which they came. A step that a step in flight brings
            about, in its tools or their tasks, joins its place: it never waits and does not count. The place
            is free when the last step at it has ended. A run inside a run counts its own steps.
        max_depth: The greatest depth of steps within steps, as when a block calls a natural function whose
            block calls another: 1 for none within another. A further one raises `NestedStepLimitError`, which
            a calling model is told as the error of its call. In a run inside a run, the outer limit holds
            as well.
        policies: `hooks`, `oversight`, `verify`, `human`, `permissions`, `budget`, `step_budget`,
            `resilience`, `concurrent_mutation` and `policies`; see `PolicyArguments`.

    Returns:
        A context manager, for `async with` and for `with`.

    Raises:
        NighthawkError: The object is no step executor, or another argument has a bad value.
        ConfigurationError: A model to fall back to cannot be had.
    """
    if sync_backend not in get_args(SyncBackend):
        raise NighthawkError(f"sync_backend must be one of {get_args(SyncBackend)}, not {sync_backend!r}")
    if run_id is not None and not isinstance(cast("object", run_id), str):
        raise NighthawkError(f"run_id must be a text, not {run_id!r}")
    if policies.get("hooks", ()) is None:
        raise NighthawkError("hooks must be a Hooks object, or a list of them, not None")

    def resolve_policies() -> Policies:
        arguments: PolicyArguments = {"concurrent_mutation": "warn", **policies}
        outer = find_environment()
        if arguments.get("human") is None:
            arguments.pop("human", None)  # nobody
            default_handler = find_default_handler() if outer is None else None
            if default_handler is not None:
                arguments["human"] = default_handler
        enclosing = NO_POLICIES if outer is None else outer.policies.of_inner_run()
        return with_arguments(enclosing, arguments, InnerScope(step_executor, is_added=True))

    return Run(
        step_executor,
        run_id=run_id,
        sync_backend=sync_backend,
        max_concurrent_steps=checked_max_concurrent_steps(max_concurrent_steps),
        max_depth=max_depth,
        resolve_policies=resolve_policies,
    )
