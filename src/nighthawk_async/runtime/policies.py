"""The active policies of a run, scope or step, as one frozen value."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal, TypeVar

from ..errors import HookError
from .policy import Listener, Policy, PolicyMethod, Position, ScopeEvents

Kind = TypeVar("Kind", bound=Policy)


class _ByMethod(dict[PolicyMethod, tuple[Policy, ...]]):
    """The policies that override a method, by method; computed on first access."""

    __slots__ = ("_active",)

    def __init__(self, active: tuple[Policy, ...]) -> None:
        self._active = active

    def __missing__(self, method: PolicyMethod) -> tuple[Policy, ...]:
        self[method] = found = tuple(policy for policy in self._active if method in policy.overridden)
        return found


class Policies:
    """The active policies.

    Args:
        policies: The policies, in any order.
        outer_listeners: The listeners of the enclosing runs, for events that concern those.

    Attributes:
        active: The policies, outermost first.
        overriding: The policies that override a method, outermost first, by method.
        outer_listeners: The listeners of the enclosing runs.
    """

    __slots__ = ("active", "outer_listeners", "overriding")

    def __init__(self, policies: Iterable[Policy] = (), *, outer_listeners: Sequence[Listener] = ()) -> None:
        self.active: tuple[Policy, ...] = tuple(sorted(policies, key=_position_of))
        self.outer_listeners: tuple[Listener, ...] = tuple(outer_listeners)
        self.overriding: Mapping[PolicyMethod, tuple[Policy, ...]] = _ByMethod(self.active)

    def has(self, position: Position) -> bool:
        """Whether a policy is active at a position."""
        return any(policy.position is position for policy in self.active)

    def find(self, kind: type[Kind]) -> Kind | None:
        """The active policy of a class that has at most one; None for none."""
        return next((policy for policy in self.active if type(policy) is kind), None)

    def with_policy(self, policy: Policy) -> "Policies":
        """Return a copy with a policy that replaces the one of its class."""
        return self._replaced((*self._others(type(policy)), policy))

    def without(self, kind: type[Policy]) -> "Policies":
        """Return a copy without the policy of a class."""
        return self._replaced(self._others(kind))

    def with_only(self, position: Position, policy: Policy | None) -> "Policies":
        """Return a copy with one policy, or none, at a position."""
        others = [each for each in self.active if each.position is not position]
        if policy is None:
            return self if len(others) == len(self.active) else self._replaced(others)
        return self._replaced((*others, policy))

    def adding(self, policies: Iterable[Policy]) -> "Policies":
        """Return a copy with more of the program's own policies, each object once."""
        own = {id(policy): policy for policy in (*self.active, *policies)}  # a data class may not be hashable
        return self._replaced(own.values())

    def without_own(self) -> "Policies":
        """Return a copy without the program's own policies."""
        return self.with_only(Position.OWN, None)

    def of_function(self, policies: Iterable[Policy]) -> "Policies":
        """Return a copy with the policies of a function that is about to be called."""
        inside = self
        for policy in policies:
            outer = inside.find(type(policy))
            inside = inside.with_policy(policy if outer is None else policy.within(outer))
        return inside

    def of_step(self) -> "Policies":
        """Return the policies for one step."""
        if not self.overriding["for_step"]:
            return self
        return self._replaced(policy.for_step() for policy in self.active)

    def of_inner_run(self) -> "Policies":
        """Return the policies that stay active in a nested run."""
        return Policies(
            (policy for policy in self.active if policy.holds_in_inner_runs),
            outer_listeners=(*self.outer_listeners, *self.listeners),
        )

    @property
    def govern_tool_calls(self) -> bool:
        """Whether any of them handles tool calls."""
        return bool(self.overriding["guard_tool_call"] or self.overriding["after_tool_call"])

    @property
    def govern_requests(self) -> bool:
        """Whether any of them handles model requests."""
        return bool(self.overriding["before_request"] or self.overriding["after_request"])

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners that receive events."""
        return tuple(listener for policy in self.overriding["listeners"] for listener in policy.listeners())

    async def report(self, event: object) -> None:
        """Report an event; see `Policy.report`.

        Raises:
            StepAbortedError: A policy ends the step.
            HookError: A policy failed.
        """
        for policy in self.overriding["report"]:
            await policy.report(event)

    def report_at_once(self, event: object) -> None:
        """Report an event from code that cannot await; see `Policy.report_at_once`."""
        for policy in self.overriding["report"]:
            policy.report_at_once(event)

    def report_end(self, event: object, error: BaseException | None) -> None:
        """Report an end from code that cannot await; see `Policy.report_end`."""
        for policy in self.overriding["report"]:
            policy.report_end(event, error)

    def _others(self, kind: type[Policy]) -> list[Policy]:
        return [policy for policy in self.active if type(policy) is not kind]

    def _replaced(self, policies: Iterable[Policy]) -> "Policies":
        return Policies(policies, outer_listeners=self.outer_listeners)


async def notify_all(listeners: Iterable[Listener], event: object) -> None:
    """Notify every listener of an event, even if others fail.

    Raises:
        HookError: Some failed: the first error, with notes on the others.
    """
    failure: HookError | None = None
    for listener in listeners:
        try:
            await listener.notify(event)
        except HookError as error:
            if failure is None:
                failure = error
            else:
                failure.add_note(str(error))
    if failure is not None:
        raise failure


@contextmanager
def active_policies(policies: Policies) -> Generator[None, None, None]:
    """Enter the context managers of policies for a run or scope; see `Policy.active`."""
    with ExitStack() as stack:
        for policy in policies.overriding["active"]:
            active = policy.active()
            if active is not None:
                stack.enter_context(active)
        yield


def scope_events(policies: Policies, kind: Literal["run", "scope"]) -> Iterator[ScopeEvents]:
    """The reports of policies at the beginning and the end of a run or scope; see `Policy.scope_events`."""
    for policy in policies.overriding["scope_events"]:
        events = policy.scope_events(kind)
        if events is not None:
            yield events


def _position_of(policy: Policy) -> int:
    return policy.position


NO_POLICIES = Policies()
