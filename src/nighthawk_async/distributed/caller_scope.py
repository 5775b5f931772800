"""The scope of a caller, as bytes for its worker: executor, policies, limits and prompts of run and scope.

What crosses is pickled, and everything that a module defines at its top level travels as its name: functions,
tools, oversight, permissions. Budgets, hooks, questions to people, the journal and the live tree stay in the
program; workers reach them through its services. `scope_pickling` refuses what a copy would not stand for.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from types import MappingProxyType

import msgspec
from msgspec import Struct

from ..kernel.environment import Environment, begin_policy, find_policies, find_source
from ..kernel.policy import Policies, Policy, Position
from ..kernel.run_state import current_depth
from ..kernel.tools import Tool, ToolScope, ToolSet
from ..policies.attempts.samples import current_sample, current_seed, enter_sample, enter_seed
from ..policies.hooks.policy import HookPolicy
from ..skills.scope import ActiveSkills
from ..types.execution import ExecutionRef
from .errors import CrossingError, LocalOnlyError
from .immutability import is_immutable
from .scope_pickling import ScopeWriter, load_parts

_SERVED = frozenset({Position.PEOPLE, Position.READERS})
"""The policies that stay in the program, besides hooks."""

_POLICY_SUBJECTS: Mapping[Position, str] = {
    Position.OWN: "the policies of the program (policies=)",
    Position.OVERSIGHT: "the oversight (oversight=)",
    Position.VERIFICATION: "the checks (verify=)",
    Position.PERMISSIONS: "the permissions (permissions=)",
    Position.EGRESS: "the egress (egress=)",
    Position.ATTEMPTS: "the resilience baseline (resilience=)",
    Position.SKILLS: "the skills (skills=)",
    Position.PASTS: "the past (past=)",
}

_MOST_REMEMBERED = 64


class CrossedScope(Struct, frozen=True, kw_only=True):
    """The scope of a caller.

    Args:
        run_id: The run.
        scope_id: The scope.
        parent_execution_id: The execution that the call is part of; None for none.
        max_depth: The number of steps within steps that are left.
        system_prompt_suffix_fragments: Texts appended to system prompts.
        user_prompt_suffix_fragments: Texts appended to user prompts.
        subjects: The pickled parts in words.
        parts: The pickled parts.
    """

    run_id: str
    scope_id: str
    parent_execution_id: str | None
    max_depth: int
    system_prompt_suffix_fragments: tuple[str, ...]
    user_prompt_suffix_fragments: tuple[str, ...]
    subjects: list[str]
    parts: bytes


class ScopeEncoder:
    """Encodes the scopes of callers; each once, as long as it is among the last ones.

    Args:
        carries_keys: Whether keys of models may cross; otherwise they are refused.
    """

    def __init__(self, *, carries_keys: bool) -> None:
        self._carries_keys = carries_keys
        self._encoded: OrderedDict[int, tuple[Environment, Hashable, bytes]] = OrderedDict()

    def encode(self, environment: Environment | None, parent_execution_id: str | None) -> bytes:
        """Return a scope as bytes; empty outside every run.

        Args:
            environment: The environment of the caller.
            parent_execution_id: The execution in which the caller is; None for none.

        Raises:
            CrossingError: A part of it cannot cross.
            LocalOnlyError: A recorder of requests is active, such as a cassette.
        """
        if find_source() is not None:
            raise LocalOnlyError(
                "a cassette, or another recorder of model requests, is active, and sees the requests of this "
                "process alone: make the calls without on= while it is active."
            )
        if environment is None:
            return b""
        key = id(environment)
        state = (
            parent_execution_id,
            current_depth(),
            current_sample(),
            current_seed(),
            _changing(environment),
        )
        known = self._encoded.get(key)
        if known is not None and known[:2] == (environment, state):
            self._encoded.move_to_end(key)
            return known[2]
        writer = ScopeWriter(carries_keys=self._carries_keys)
        body = _encoded(environment, parent_execution_id, writer)
        self._encoded[key] = (environment, state, body)
        if len(self._encoded) > _MOST_REMEMBERED:
            self._encoded.popitem(last=False)
        return body


def _changing(environment: Environment) -> Hashable:
    """The parts of a scope that may change after it was entered."""
    return (
        tuple(tuple(each.registered) for each in environment.tool_scope.chain()),
        tuple(environment.policies.find(ActiveSkills) or ()),
        find_policies(),
    )


def _encoded(environment: Environment, parent_execution_id: str | None, writer: ScopeWriter) -> bytes:
    subjects: list[str] = []
    for subject, value in _parts_of(environment):
        subjects.append(subject)
        writer.add(value, subject, is_strict=subject != _EXECUTOR)
    reference = environment.execution_ref
    scope = CrossedScope(
        run_id=reference.run_id,
        scope_id=reference.scope_id,
        parent_execution_id=parent_execution_id or reference.parent_execution_id,
        max_depth=max(environment.max_depth - current_depth(), 0),
        system_prompt_suffix_fragments=environment.system_prompt_suffix_fragments,
        user_prompt_suffix_fragments=environment.user_prompt_suffix_fragments,
        subjects=subjects,
        parts=writer.body,
    )
    return msgspec.msgpack.encode(scope)


_EXECUTOR = "the executor of the run"
_REFERENCES = "the implicit references"
_TOOLS = "the tools (tools=)"
_CACHE = "the response cache (resilience.cached)"
_SAMPLE = "the sample and the seed"


def _parts_of(environment: Environment) -> list[tuple[str, object]]:
    parts: list[tuple[str, object]] = [(_EXECUTOR, environment.step_executor)]
    for name, value in environment.implicit_references.items():
        _check_reference(name, value)
    references = dict(environment.implicit_references)
    parts.append((_REFERENCES, references))
    parts.append((_TOOLS, _tool_levels(environment.tool_scope)))
    for policy in environment.policies.active:
        if policy.position not in _SERVED and not isinstance(policy, HookPolicy):
            subject = _POLICY_SUBJECTS.get(policy.position, f"the policy {type(policy).__name__}")
            parts.append((subject, _without_accounts(policy)))
    parts.append((_SAMPLE, (current_sample(), current_seed())))
    parts.append((_CACHE, find_policies()))
    return parts


def _check_reference(name: str, value: object) -> None:
    if type(value).__module__.startswith(f"{_MCP}."):
        raise LocalOnlyError(
            f"the server {name!r} (servers=) is a session of this process with a server of the Model Context "
            "Protocol, which cannot cross to a worker: enter a run with servers= in the function that the "
            "worker runs, or make the call without on=."
        )
    if not is_immutable(value):
        subject = f"the implicit reference {name!r}"
        raise CrossingError(
            f"{subject} cannot cross to a worker: a {type(value).__qualname__} may change, and a worker "
            "would get a copy. Use a function or class of a module, or a value that cannot change, such as "
            "a tuple or a frozen dataclass; or make the call without on=.",
            subject=subject,
        )


_MCP = f"{__name__.partition('.')[0]}.mcp"


def _tool_levels(scope: ToolScope) -> list[tuple[tuple[ToolSet, ...], tuple[Tool, ...]]]:
    """Return the tools of the program, of its run and of each scope, those of the program first."""
    return [(tuple(each.sets), tuple(each.registered)) for each in scope.chain()]


def _tool_scope(levels: list[tuple[tuple[ToolSet, ...], tuple[Tool, ...]]]) -> ToolScope:
    scope: ToolScope | None = None
    for sets, registered in levels:
        scope = ToolScope(scope, sets)
        for tool in registered:
            scope.register(tool, overwrite=True)
    return ToolScope(None) if scope is None else scope


def _without_accounts(policy: Policy) -> Policy:
    """Return a policy; budgets without their accounts, which stay in the program."""
    if policy.position is not Position.BUDGETS:
        return policy
    from ..policies.budgets.policy import BudgetPolicy  # here, because few programs have a budget

    return policy.on_workers() if isinstance(policy, BudgetPolicy) else policy


def decode_scope(body: bytes) -> CrossedScope:
    """Decode a scope; see `ScopeEncoder.encode`."""
    return msgspec.msgpack.decode(body, type=CrossedScope)


class LoadedScope(Struct, frozen=True, kw_only=True, eq=False):
    """The scope of a caller, on a worker.

    Args:
        environment: The environment of the call.
        sample: The sample that it is part of.
        seed: The seed of the trial that it is part of; None for none.
        cache: The policies of the context: a response cache, or none.
    """

    environment: Environment
    sample: tuple[int, ...]
    seed: int | None
    cache: tuple[Policy, ...]

    def enter(self) -> None:
        """Make sample, seed and cache those of the current task, until it ends."""
        enter_sample(self.sample)
        enter_seed(self.seed)
        for policy in self.cache:
            begin_policy(policy)


def loaded_scope(scope: CrossedScope, worker: Environment) -> LoadedScope:
    """Return the scope of a call on a worker.

    Args:
        scope: The scope of the caller.
        worker: The environment of the worker's own run, whose connections the call shares.

    Raises:
        CrossingError: A part of the scope cannot be loaded here.
    """
    loaded = load_parts(scope.parts, scope.subjects)
    parts = dict(zip(scope.subjects, loaded, strict=True))
    policies = [each for each in loaded if isinstance(each, Policy)]
    environment = replace(
        worker,
        execution_ref=ExecutionRef(
            run_id=scope.run_id, scope_id=scope.scope_id, parent_execution_id=scope.parent_execution_id
        ),
        step_executor=parts[_EXECUTOR],
        tool_scope=_tool_scope(parts[_TOOLS]),
        max_depth=scope.max_depth,
        system_prompt_suffix_fragments=scope.system_prompt_suffix_fragments,
        user_prompt_suffix_fragments=scope.user_prompt_suffix_fragments,
        implicit_references=MappingProxyType(parts[_REFERENCES]),
        policies=Policies(policies),
    )
    sample, seed = parts[_SAMPLE]
    return LoadedScope(environment=environment, sample=sample, seed=seed, cache=parts[_CACHE])
