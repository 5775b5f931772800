"""Permissions narrowed by the allowed tools of the skills that are active in a step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from ..kernel.environment import find_environment
from ..kernel.events import Verdict
from ..kernel.step import Chosen
from ..policies.permissions.call import PermissionCall
from ..policies.permissions.permissions import PermissionDecision, Permissions
from ..policies.permissions.policy import PermissionPolicy
from .scope import ActiveSkills


class _NarrowingSkill(Protocol):
    """A skill that may have allowed tools."""

    name: str
    allowed_tools: Sequence[object]

    @property
    def permissions(self) -> Permissions: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SkillPermissions(Permissions):
    """Allows what every active skill with `allowed-tools` allows; everything while there is none."""

    default: Verdict = "allow"

    def decide(self, call: PermissionCall, *, default: Verdict | None = None) -> PermissionDecision:
        """Decide about a call; see `Permissions.decide`."""
        for skill in _active():
            if skill.permissions.decide(call, default=default).verdict == "deny":
                return _denial(skill)
        return PermissionDecision(verdict=default or self.default)

    def decide_for_any_arguments(
        self, call: PermissionCall, *, default: Verdict | None = None
    ) -> PermissionDecision:
        """Decide about a call with unknown arguments; see `Permissions.decide_for_any_arguments`."""
        for skill in _active():
            if skill.permissions.decide_for_any_arguments(call, default=default).verdict == "deny":
                return _denial(skill)
        return PermissionDecision(verdict=default or self.default)


ALLOWED_BY_SKILLS = SkillPermissions()


def narrowed_by_skills(policies: Chosen) -> Chosen:
    """Return policies that also ask the skills that are active in a step."""
    parent: PermissionPolicy | None = policies.find(PermissionPolicy)
    sets = () if parent is None else parent.sets
    if ALLOWED_BY_SKILLS in sets:
        return policies
    return policies.with_policy(PermissionPolicy((*sets, ALLOWED_BY_SKILLS)))


def _active() -> list[_NarrowingSkill]:
    environment = find_environment()
    found = None if environment is None else environment.policies.find(ActiveSkills)
    active = cast("list[_NarrowingSkill]", list(found or ()))
    return [each for each in active if each.allowed_tools]


def _denial(skill: _NarrowingSkill) -> PermissionDecision:
    return PermissionDecision(verdict="deny", rule=f"allowed-tools of the skill {skill.name!r}")
