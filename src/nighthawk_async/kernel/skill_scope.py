"""Skills as steps see them: those of a scope, those that a block names, and the active ones of a step."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import cast

from ..errors import ConfigurationError, NaturalParseError
from ..natural.blocks import NaturalBlock
from ..natural.program import find_tokens, root_name
from ..prompt.plain_text import safe_text
from ..types.messages import BinaryContent
from .context import StepContext
from .policy import Policies


class ScopedSkill(ABC):
    """A skill: instructions for one kind of task. `nighthawk_async.skills.Skill` is the only one."""

    __slots__ = ()

    name: str
    description: str
    files: Mapping[str, int]
    """The sizes of its files, in bytes, by their paths."""

    @property
    @abstractmethod
    def variable_name(self) -> str:
        """The name by which a block names it: with underscores in place of hyphens."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """The place where it was found, for errors."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The whole instructions, with the list of the files."""

    @abstractmethod
    def read(self, file: str) -> str | BinaryContent:
        """Read one of its files. Blocks.

        Raises:
            NighthawkError: There is no such file, or it is neither a text nor an image, or too large.
        """

    @abstractmethod
    def narrowed(self, policies: Policies) -> Policies:
        """Return policies that narrow permissions in steps where it is active, if it says so."""


class ActiveSkills:
    """The skills that are active in one step, and in the steps that it is part of.

    Args:
        parent: Those of the parent step; None for none.
        named: Those that the block names, by the names in its text.
    """

    __slots__ = ("_own", "_parent", "named")

    def __init__(self, parent: "ActiveSkills | None", named: Mapping[str, ScopedSkill]) -> None:
        self._parent = parent
        self._own = list(named.values())
        self.named = named

    def add(self, skill: ScopedSkill) -> None:
        """Make a skill active that the model has read."""
        if skill not in self._own:
            self._own.append(skill)

    def __iter__(self) -> Iterator[ScopedSkill]:
        if self._parent is not None:
            yield from self._parent
        yield from tuple(self._own)


def merged_skills(tables: Iterable[Iterable[ScopedSkill]]) -> dict[str, ScopedSkill]:
    """Return skills by name, in the order of names.

    Raises:
        ConfigurationError: Two different ones have the same name.
    """
    merged: dict[str, ScopedSkill] = {}
    for skill in (each for table in tables for each in table):
        other = merged.setdefault(skill.name, skill)
        if other is not skill and other != skill:
            raise ConfigurationError(
                f"Two skills are named {skill.name!r}: {other.origin} and {skill.origin}; offer one of them."
            )
    return dict(sorted(merged.items()))


def references_to_skills(
    skills: Mapping[str, ScopedSkill], names: Iterable[str], variables: Iterable[Mapping[str, object]]
) -> dict[str, ScopedSkill]:
    """Return the skills of a scope that a block names, except where a variable has the name.

    Args:
        skills: The skills of the scope; also found by their names as variables.
        names: The names that the author of the block wrote.
        variables: The variables that win.
    """
    scopes = tuple(variables)
    return {
        name: skills[name] for name in names if name in skills and not any(name in each for each in scopes)
    }


def find_named_skills(block: NaturalBlock, context: StepContext) -> dict[str, ScopedSkill]:
    """Return the skills that a block names.

    Only names that the author of the block wrote count; those in a value that was put into its text do not.

    Raises:
        NaturalParseError: A skill sets a variable that the block does not set.
    """
    found: dict[str, ScopedSkill] = {}
    for name in block.read_names:
        value = context.step_locals.get(name, context.referenced_globals.get(name))
        kind = type(value)  # isinstance would ask the value for its __class__
        if issubclass(kind, ScopedSkill):
            found[name] = cast("ScopedSkill", value)
    if found:
        for skill in found.values():
            _check_bindings(skill, block)
    return found


def _check_bindings(skill: ScopedSkill, block: NaturalBlock) -> None:
    for name in _write_names(skill.text):
        if name not in block.write_names:
            raise NaturalParseError(
                f"the skill {skill.name!r} sets <:{name}>, and the block that names it does not; mention "
                f"<:{name}> in the block, or escape it in the skill as \\<:{name}>",
                filename=block.filename,
                line=block.line,
            )


@lru_cache(maxsize=256)
def _write_names(text: str) -> tuple[str, ...]:
    return tuple(token.path for token in find_tokens(text) if token.is_write and token.is_reference)


def hide_skills(found: Mapping[str, ScopedSkill], context: StepContext) -> None:
    """Hide the names of skills from a step, which sees their texts instead."""
    used = {root_name(path) for path in context.references if "." in path}
    hidden = found.keys() - used  # a field of the others is read
    context.references = tuple(path for path in context.references if path not in hidden)
    context.mentions = tuple(path for path in context.mentions if path not in hidden)
    for name in hidden:
        context.step_locals.pop(name, None)
    context.referenced_globals = {
        name: value for name, value in context.referenced_globals.items() if name not in hidden
    }


def program_with_skills(program: str, named: Mapping[str, ScopedSkill]) -> str:
    """Return the text of a program with those of the skills that it names at its end.

    Args:
        program: The text of the block.
        named: The skills by the names in the block.
    """
    sections = [
        f"<{name}> is this skill:\n<<<NH:SKILL>>>\n{safe_text(skill.text)}\n<<<NH:END_SKILL>>>"
        for name, skill in named.items()
    ]
    return "\n\n".join([program.rstrip(), *sections])
