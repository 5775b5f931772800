"""The environment of a step: one frozen value in one context variable (specification 10)."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType

from ..actors.ordering import Orders
from ..errors import NighthawkError
from ..journal_ports import RunJournal
from ..types.execution import ExecutionRef, PartialSink
from ..types.quick_init import quick_init
from .conversations import Past
from .nesting import DEFAULT_MAX_DEPTH
from .policies import NO_POLICIES, Policies
from .run_state import RunState
from .skill_scope import ActiveSkills, ScopedSkill
from .step import Step
from .step_actor import StepActor
from .step_context import StepContext
from .step_executor import StepExecutor
from .tool_scope import GLOBAL_TOOLS, ToolScope
from .usage_meter import UsageMeter


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Environment:
    """The active settings and state of a run, scope or step.

    Args:
        execution_ref: The identity of what is running.
        step_executor: The executor of steps.
        run_state: The state of the run.
        tool_scope: The innermost scope of tools.
        usage_meter: The meter of the innermost run or scope.
        system_prompt_suffix_fragments: Texts appended to system prompts.
        user_prompt_suffix_fragments: Texts appended to user prompts.
        implicit_references: Names and values that every block can use.
        policies: The active policies.
        partial_sinks: The receivers of partial values while answers stream.
        step: The step in progress; None between steps.
        step_path: The addresses of the blocks in progress in this run, outermost first.
        max_depth: The greatest depth of nested steps, including enclosing ones.
        journal: The journal of the run; None for none.
        skills: The skills of the scope by name; None for none.
        active_skills: The skills that are active in the step; None for none.
        past: The past that steps begin with; None for none. Steps within steps have none of it.
    """

    execution_ref: ExecutionRef
    step_executor: StepExecutor
    run_state: RunState
    tool_scope: ToolScope
    usage_meter: UsageMeter
    system_prompt_suffix_fragments: tuple[str, ...] = ()
    user_prompt_suffix_fragments: tuple[str, ...] = ()
    implicit_references: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    policies: Policies = NO_POLICIES
    partial_sinks: tuple[PartialSink, ...] = ()
    step: Step | None = None
    step_path: tuple[str, ...] = ()
    max_depth: int = DEFAULT_MAX_DEPTH
    journal: RunJournal | None = None
    skills: Mapping[str, ScopedSkill] | None = None
    active_skills: ActiveSkills | None = None
    past: Past | None = None

    def of_call(self) -> "Environment":
        """The environment of a call in this one, which may have tools of its own."""
        return self._changed(tool_scope=ToolScope(self.tool_scope))

    def of_step(self, step: Step, address: str) -> "Environment":
        """The environment of a step in this one.

        Args:
            step: The step.
            address: The address of its block.
        """
        return self._changed(
            execution_ref=step.context.execution_ref,
            step=step,
            step_path=(*self.step_path, address),
            policies=self.policies.of_step(),
            past=None,
        )

    def _changed(self, **changes: object) -> "Environment":
        """The same with other values for some fields: `dataclasses.replace` in a fraction of the time."""
        new = object.__new__(Environment)
        for set_field, value in zip(_FIELDS.values(), _values_of(self), strict=True):
            set_field(new, value)
        for name, value in changes.items():
            _FIELDS[name](new, value)
        return new


_FIELDS = {name: vars(Environment)[name].__set__ for name in Environment.__slots__}
_values_of: Callable[[Environment], tuple[object, ...]] = attrgetter(*_FIELDS)


_environment: ContextVar[Environment | None] = ContextVar("nighthawk_async_environment", default=None)


def find_environment() -> Environment | None:
    """The active environment; None outside every run."""
    return _environment.get()


def find_journal() -> RunJournal | None:
    """The journal of the run; None without one, and outside every run."""
    environment = _environment.get()
    return None if environment is None else environment.journal


def find_orders() -> Orders | None:
    """The orders in which the tasks of the run use mailboxes and the like; None without a journal."""
    environment = _environment.get()
    return None if environment is None or environment.journal is None else environment.journal.orders


def get_environment() -> Environment:
    """The active environment.

    Raises:
        NighthawkError: No run is active.
    """
    environment = _environment.get()
    if environment is None:
        raise NighthawkError(
            "No run is active. Enter one around the call: `async with nighthawk_async.run(executor): …`, "
            "or `with nighthawk_async.run(executor): …` in synchronous code."
        )
    return environment


class using_environment:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate an environment during the `with` statement."""

    __slots__ = ("_environment", "_token")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> None:
        self._token = _environment.set(self._environment)

    def __exit__(self, *exc_details: object) -> None:
        _environment.reset(self._token)


def current_tool_scope() -> ToolScope:
    """The innermost scope of tools: that of the call, scope or run, else that of the program."""
    environment = _environment.get()
    return GLOBAL_TOOLS if environment is None else environment.tool_scope


def get_step_executor() -> StepExecutor:
    """The active step executor.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().step_executor


def get_execution_ref() -> ExecutionRef:
    """The identity of what is running.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().execution_ref


def get_current_step() -> Step:
    """The step in progress.

    Raises:
        NighthawkError: No step is active.
    """
    environment = _environment.get()
    if environment is None or environment.step is None:
        raise NighthawkError(
            "No step is active. This works only in what a natural block calls: tools, binding functions, "
            "executors."
        )
    return environment.step


def get_current_step_context() -> StepContext:
    """The state of the step in progress (specification 5.4).

    Raises:
        NighthawkError: No step is active.
    """
    return get_current_step().context


def get_current_step_actor() -> StepActor:
    """The actor of the step in progress, to steer it or to take a snapshot of it.

    Raises:
        NighthawkError: No step is active.
    """
    return get_current_step().actor


def get_usage_meter() -> UsageMeter:
    """The usage meter of the innermost run or scope.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().usage_meter


def get_system_prompt_suffix_fragments() -> tuple[str, ...]:
    """A snapshot of the texts the run's scopes append to system prompts.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().system_prompt_suffix_fragments


def get_user_prompt_suffix_fragments() -> tuple[str, ...]:
    """A snapshot of the texts the run's scopes append to user prompts.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().user_prompt_suffix_fragments


def get_implicit_references() -> Mapping[str, object]:
    """A snapshot of the names that the run's scopes make available to every block.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().implicit_references
