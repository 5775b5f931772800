"""Roles that a request for approval may be handed on to, and the people in them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias, cast, runtime_checkable

from ...actors import BareTaskGroup
from ...errors import NighthawkError
from ...kernel.commands import await_value
from .ballot import NO_ROLES, Roles
from .request import ApprovalRequest, HumanHandler, Question, checked_human_handler


@dataclass(frozen=True, slots=True)
class Role:
    """The people of a role, and the way to reach them.

    Args:
        people: Their names, as they approve.
        handler: The handler whose `approve` gets requests that are handed on to the role. None where the
            people see them already: at a dashboard, through the store of a journal, in an interface of yours.
    """

    people: Collection[str]
    handler: HumanHandler | None = None


RoleSource: TypeAlias = Role | Collection[str]
"""A role, or the names of its people."""


def with_roles(handler: HumanHandler, roles: Mapping[str, RoleSource]) -> HumanHandler:
    """Return a handler whose requests for approval may be handed on to roles, with `request.escalate_to`.

        people = nh.human.with_roles(nh.human.TerminalHandler(), {"manager": ["grace", "heidi"]})
        async with nh.run(executor, human=people): ...

    Args:
        handler: The handler that is asked first.
        roles: The people of each role, by its name; a `Role` also has the handler that reaches them.

    Raises:
        NighthawkError: The handler is none, a role has no people, or a name is empty.
    """
    asked_first = checked_human_handler(handler)
    if asked_first is None:
        raise NighthawkError("with_roles takes a handler, not None")
    return _HandlerWithRoles(asked_first, {name: _checked(name, role) for name, role in roles.items()})


@runtime_checkable
class _HasRoles(Protocol):
    """A handler that says itself which roles there are."""

    @property
    def approver_roles(self) -> Mapping[str, Collection[str]]:
        """The people of each role."""
        ...


def roles_of(handler: HumanHandler | None) -> Roles:
    """Return the people of the roles that the requests of a handler may be handed on to."""
    return roles_from(handler.approver_roles) if isinstance(handler, _HasRoles) else NO_ROLES


def roles_from(people: Mapping[str, Collection[str]]) -> Roles:
    """Return roles from the names of their people."""
    return MappingProxyType({name: frozenset(each) for name, each in people.items()})


class _HandlerWithRoles:
    """A handler that also asks the people of the roles to which requests are handed on."""

    def __init__(self, handler: HumanHandler, roles: Mapping[str, Role]) -> None:
        self._handler = handler
        self._handlers = {name: role.handler for name, role in roles.items()}
        self.approver_roles = roles_from({name: role.people for name, role in roles.items()})

    async def ask(self, question: Question) -> object:
        """Ask the handler."""
        return await await_value(self._handler.ask(question))

    async def approve(self, request: ApprovalRequest) -> None:
        """Ask the handler, and the people of the roles to which the request is handed on."""
        async with BareTaskGroup() as group:
            if request.role is None:  # else it was handed on in an earlier life
                group.start_soon(self._ask, self._handler, request)
            role: str | None = None
            while request.is_pending:
                if request.role != role:
                    role = request.role
                    handler = self._handlers.get(role or "")
                    if handler is not None:
                        group.start_soon(self._ask, handler, request)
                    continue
                await request.ballot.wait_changed()
            group.cancel_scope.cancel()

    async def _ask(self, handler: HumanHandler, request: ApprovalRequest) -> None:
        await await_value(handler.approve(request))


def _checked(name: object, role: object) -> Role:
    if not isinstance(name, str) or not name:
        raise NighthawkError(f"The name of a role is a text that is not empty, not {name!r}.")
    given = role if isinstance(role, Role) else Role(_names(name, role))
    people = _names(name, given.people)
    return Role(people, checked_human_handler(given.handler))


def _names(role: str, people: object) -> frozenset[str]:
    is_collection = isinstance(people, Collection) and not isinstance(people, str)
    given = cast("Collection[object]", people) if is_collection else ()
    names = [name for name in given if isinstance(name, str) and name]
    if not names or len(names) < len(given):
        raise NighthawkError(f"The people of the role {role!r} are a collection of names, not {people!r}.")
    return frozenset(names)
