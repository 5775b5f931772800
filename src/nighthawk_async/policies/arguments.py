"""The arguments of `run` and `scope` that are policies.

The modules of a policy are imported only when a program asks for one of its kind: together they would be a
quarter of the library's own modules that a first step loads.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack, cast

from ..configuration import StepExecutorConfiguration
from ..errors import NighthawkError
from ..kernel.context import StepExecutor, shows_named_only
from ..kernel.environment import get_environment
from ..kernel.policy import CodeLevels, InnerScope, Policies, Policy, Position
from ..kernel.step import Step
from ..lazy_exports import LazyModule
from ..suggestions import did_you_mean
from ..types.code import CodeLevel, CodeLevelName
from ..types.unset import UNSET, Unset

if TYPE_CHECKING:
    from .attempts import resilience as attempt_types
    from .budgets import budget as budget_types
    from .code_levels import levels as code_levels
    from .egress import egress as egress_types
    from .hooks import registry as hook_types
    from .oversight import inspection as oversight_types
    from .people import request as people_types
    from .permissions import permissions as permission_types
    from .shared_objects import bound_objects as mutation_types
else:
    attempt_types = LazyModule("nighthawk_async.policies.attempts.resilience")
    budget_types = LazyModule("nighthawk_async.policies.budgets.budget")
    code_levels = LazyModule("nighthawk_async.policies.code_levels.levels")
    egress_types = LazyModule("nighthawk_async.policies.egress.egress")
    hook_types = LazyModule("nighthawk_async.policies.hooks.registry")
    mutation_types = LazyModule("nighthawk_async.policies.shared_objects.bound_objects")
    oversight_types = LazyModule("nighthawk_async.policies.oversight.inspection")
    people_types = LazyModule("nighthawk_async.policies.people.request")
    permission_types = LazyModule("nighthawk_async.policies.permissions.permissions")


class CommonPolicyArguments(TypedDict, total=False):
    """Policies by the names of the arguments of `run`, `scope` and the ASGI middleware.

    An argument that is left out changes nothing.

    Args:
        hooks: Functions that are called for events, after the hooks of enclosing scopes. An object that is
            already active is not called twice. When the run or scope is entered with `with`, the hooks of its
            own beginning and end must be `def`.
        oversight: The oversight of tool calls and commits; None for none.
        verify: The checks of whether a step inside is done: a function of a `Proposal`, several of them, or
            the result of `nighthawk_async.oversight.verification`. The checks of enclosing scopes must agree
            as well.
        human: The handler that asks people, for `ask_user` and `request_approval`. With None, nobody is
            asked, except through the dashboard that an application is served with (`Dashboard.beside`).
        permissions: The calls that are permitted; see `nighthawk_async.permissions`. Permissions that are
            already active apply as well, in both modes of a scope and in a nested run.
        egress: The hosts that may be reached, by servers over HTTP, fetched pages and media by address; see
            `nighthawk_async.egress`. What is already active applies as well, in both modes of a scope and in
            a nested run.
        step_budget: The budget of each step inside, with an account of its own. Enclosing budgets apply as
            well, in both modes of a scope and in a nested run.
        resilience: The retries, fallbacks and timeout of each step inside: a
            `nighthawk_async.resilience.Baseline`; None for none. What it leaves out is inherited from the
            parent.
        concurrent_mutation: The reaction to a step that changes, through its tools, an object that another
            step in flight has bound: `warn`, the default of a run, gives a `ConcurrentMutationWarning`;
            `error` makes the tool call fail and restores the object; with `first` the first step goes on, and
            calls of the others fail until their models were shown the new value; `ignore` does not check.
        code: What code of models may do, also in a nested run: `none`, `shown` (the default), `python`, or an
            object such as a sandbox; see `StepExecutorConfiguration`. The innermost setting counts. It widens
            neither permissions nor visible names.
        policies: The program's own policies, one or a list: objects of classes derived from
            `nighthawk_async.Policy`, after those of enclosing scopes. An object that is already active is not
            called twice.
    """

    hooks: "hook_types.Hooks | Sequence[hook_types.Hooks] | Unset | None"
    oversight: "oversight_types.Oversight | Unset | None"
    verify: "oversight_types.Verify | Unset | None"
    human: "people_types.HumanHandler | Unset | None"
    permissions: "permission_types.Permissions | Unset | None"
    egress: "egress_types.Egress | Unset | None"
    step_budget: "budget_types.Budget | Unset | None"
    resilience: "attempt_types.StepBaseline | Unset | None"
    concurrent_mutation: "mutation_types.ConcurrentMutation | Unset"
    code: "CodeLevelName | CodeLevel | Unset"
    policies: "Policy | Sequence[Policy] | Unset | None"


class PolicyArguments(CommonPolicyArguments, total=False):
    """Policies by the names of the arguments of `run` and `scope`.

    Args:
        budget: The budget of all steps inside together; see `nighthawk_async.budget`. Enclosing budgets apply
            as well, in both modes of a scope and in a nested run.
    """

    budget: "budget_types.Budget | Unset | None"


def given_policies(unknown: Mapping[str, object], **arguments: Unpack[PolicyArguments]) -> PolicyArguments:
    """Return the arguments that were given, the unknown ones too, which `with_arguments` refuses."""
    given = {name: value for name, value in arguments.items() if value is not UNSET}
    return cast("PolicyArguments", given | dict(unknown))


_MODULES: Mapping[str, str] = {
    "hooks": "hooks.policy",
    "oversight": "oversight.policy",
    "verify": "oversight.policy",
    "human": "people.policy",
    "permissions": "permissions.policy",
    "egress": "egress.policy",
    "budget": "budgets.budget",
    "step_budget": "budgets.budget",
    "resilience": "attempts.policy",
    "concurrent_mutation": "shared_objects.policy",
}
"""For each argument, the module below `policies` whose function `with_…` adds the policy, in this order."""


def with_arguments(
    policies: Policies, arguments: PolicyArguments, inner: InnerScope, *, entry: Callable[..., object]
) -> Policies:
    """Return the policies inside a run or scope.

    Args:
        policies: The policies of the parent.
        arguments: The arguments of the run or scope.
        inner: The executor inside, and whether the arguments are added to the policies of the parent.
        entry: The function that got the arguments, `run` or `scope`.

    Raises:
        NighthawkError: An argument has a bad value.
        ConfigurationError: A fallback model is not available.
        TypeError: There is no such argument.
    """
    given = cast("dict[str, Any]", dict(arguments))
    own: object = given.pop("policies", None)
    code: object = given.pop("code", UNSET)
    for name in given:
        if name not in _MODULES:
            raise TypeError(_unknown_argument(name, entry))
    for name, module in _MODULES.items():
        value = given.get(name, UNSET)
        if value is not UNSET or (name == "resilience" and policies.has(Position.ATTEMPTS)):
            # the fallbacks of a baseline follow the executor
            add = getattr(import_module(f"{__package__}.{module}"), f"with_{name}")
            policies = add(policies, value, inner)
    if own is not None:
        policies = _with_own(policies, own, inner)
    policies = _with_code(policies, code, inner.executor)
    return _with_visible_names(policies, inner.executor)


def _unknown_argument(name: str, entry: Callable[..., object]) -> str:
    own = [each.name for each in signature(entry).parameters.values() if each.kind is not each.VAR_KEYWORD]
    known = (*own, *_MODULES, "code", "policies")
    is_setting = name in StepExecutorConfiguration.model_fields
    hint = " It is a setting of StepExecutorConfiguration." if is_setting else did_you_mean(name, known)
    return f"{entry.__name__}() has no argument {name!r}.{hint} Its arguments are: {', '.join(known)}."


def _with_own(policies: Policies, own: object, inner: InnerScope) -> Policies:
    given = cast("Sequence[object]", own if isinstance(own, list | tuple) else (own,))
    for policy in given:
        if not isinstance(policy, Policy) or policy.position is not Position.OWN:
            raise NighthawkError(
                f"policies must be objects of classes derived from nighthawk_async.Policy, not {policy!r}"
            )
    if not inner.is_added:
        policies = policies.without_own()
    return policies.adding(cast("Sequence[Policy]", given))


class _VisibleNames(Policy):
    """Hides names that the block does not mention (`StepContextLimits.visible_names`).

    Args:
        is_wanted: Whether the configuration of the executor wants it; if it has none yet, that of the step's
            executor decides.
    """

    position: ClassVar[Position] = Position.VISIBLE_NAMES

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted

    def prepare(self, step: Step) -> None:
        """Hide the other names, and keep code from reaching them in other ways."""
        if self._is_wanted or shows_named_only(get_environment().step_executor):
            from .permissions.policy import hide_other_names  # here, because few steps hide names

            hide_other_names(step)


def _with_visible_names(policies: Policies, executor: StepExecutor) -> Policies:
    """Add the policy of visible names, unless the configuration of the executor shows all."""
    is_wanted = shows_named_only(executor)
    is_configured = isinstance(getattr(executor, "configuration", None), StepExecutorConfiguration)
    policy = _VisibleNames(is_wanted=is_wanted) if is_wanted or not is_configured else None
    return policies.with_only(Position.VISIBLE_NAMES, policy)


class _CodeLevel(CodeLevels):
    """The level of code.

    Args:
        level: The level.
        configured: That of the executor's configuration; None for none.
    """

    position: ClassVar[Position] = Position.CODE

    def __init__(
        self, level: CodeLevelName | CodeLevel, configured: CodeLevelName | CodeLevel | None
    ) -> None:
        self.level: CodeLevelName | CodeLevel = level
        self.configured: CodeLevelName | CodeLevel | None = configured

    @property
    def coding(self) -> CodeLevel | None:
        """The level of code; None for that of a program."""
        return code_levels.coding_of(self.level)


class _GivenCodeLevel(_CodeLevel):
    """The level of `code=`, which holds in nested runs as well."""

    holds_in_inner_runs: ClassVar[bool] = True


def _with_code(policies: Policies, given: object, executor: StepExecutor) -> Policies:
    """Add the level of `code=`; else that of the executor's configuration, if it says another than before."""
    configuration: object = getattr(executor, "configuration", None)
    is_configured = isinstance(configuration, StepExecutorConfiguration)
    configured = configuration.code if is_configured else None
    if given is not UNSET:
        policy = _GivenCodeLevel(code_levels.checked_level(given), configured)
        return policies.with_only(Position.CODE, policy)
    active = next(iter(policies.all_of(_CodeLevel)), None)
    if isinstance(active, _GivenCodeLevel) and configured in (None, active.configured):
        return policies
    level = configuration.resolved_code if is_configured else "shown"
    if active is not None and (level, configured) == (active.level, active.configured):
        return policies
    return policies.with_only(Position.CODE, _CodeLevel(level, configured))
