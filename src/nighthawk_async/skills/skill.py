"""`Skill`: one skill that was loaded; `Skills`: several, by name."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union, cast

from ..confined_files import ConfinedFiles, OutsideWorkspaceError, WorkspaceError
from ..errors import NighthawkError
from ..kernel.policy import Policies
from ..kernel.step import Chosen
from ..suggestions import did_you_mean
from ..types.messages import BinaryContent, guess_media_type
from .allowed_tools import AllowedTool, permissions_of
from .errors import SkillFileError
from .scope import ScopedSkill, ScopeSkills, merged_skills, offered_skills

if TYPE_CHECKING:
    from ..policies.permissions.permissions import Permissions
else:
    Permissions = object

INSTRUCTIONS = "SKILL.md"
MOST_FILE_BYTES = 5_000_000

_IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Skill(ScopedSkill):
    """One skill. Made by `nighthawk_async.skills.load`; its files are read when they are asked for.

    Args:
        name: Its name, which is that of its folder.
        description: Its purpose, and when to use it.
        body: The instructions: the text of `SKILL.md` after the frontmatter.
        folder: The folder.
        license: The license, or the file that holds it; None for none.
        compatibility: The requirements on its environment; None for none.
        metadata: Further texts by name.
        allowed_tools: The calls that may be made while it is active; empty for no restriction.
        files: The sizes of its other files, in bytes, by their paths below the folder.
    """

    name: str
    description: str
    body: str
    folder: Path
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    allowed_tools: tuple[AllowedTool, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    def __repr__(self) -> str:
        return f"<skill {self.name!r} in {str(self.folder)!r}>"

    @property
    def variable_name(self) -> str:
        """The name by which a block names it: with underscores in place of hyphens."""
        return self.name.replace("-", "_")

    @property
    def origin(self) -> str:
        """The folder, as a text."""
        return str(self.folder)

    @property
    def text(self) -> str:
        """The whole instructions, with the allowed tools and the list of the files."""
        parts = [self.body]
        if self.allowed_tools:
            allowed = " ".join(each.text for each in self.allowed_tools)
            parts.append(f"While this skill is active, only these calls are permitted: {allowed}")
        if self.files:
            listed = "\n".join(f"- {path}" for path in self.files)
            parts.append(f"Files of the skill {self.name}:\n{listed}")
        return "\n\n".join(part for part in parts if part)

    @property
    def permissions(self) -> "Permissions":
        """Permissions that allow what `allowed_tools` allows, and deny all other calls."""
        return _permissions_of(self.allowed_tools)

    def read(self, file: str) -> str | BinaryContent:
        """Read one of its files. Blocks: in async code, call it in a worker thread.

        Args:
            file: The path of the file, as `files` has it, or `SKILL.md` for the instructions.

        Returns:
            The text, or an image (GIF, JPEG, PNG or WebP).

        Raises:
            SkillFileError: The skill had no such file when it was loaded, or it cannot be read now, has more
                than 5,000,000 bytes, or is neither a text nor an image.
        """
        if file == INSTRUCTIONS:
            return self.text
        if file not in self.files:
            raise SkillFileError(f"the skill {self.name!r} has no file {file!r}")
        try:
            content = ConfinedFiles(self.folder).read(file, MOST_FILE_BYTES)
        except OutsideWorkspaceError:
            raise SkillFileError(f"{file!r} leads out of the folder of the skill {self.name!r}") from None
        except (WorkspaceError, NighthawkError) as error:
            raise SkillFileError(f"a file of the skill {self.name!r} cannot be read: {error}") from error
        media_type = guess_media_type(file)
        if media_type in _IMAGES:
            return BinaryContent(data=content, media_type=media_type, identifier=file)
        text = decoded(content)
        if text is None:
            kind = "" if media_type is None else f", {media_type}"
            raise SkillFileError(
                f"{file!r} of the skill {self.name!r} is neither a text nor an image ({len(content):,} "
                f"bytes{kind})"
            )
        return text

    def narrowed(self, policies: Chosen) -> Chosen:
        """Return policies that narrow permissions in steps where it is active, if it has allowed tools."""
        if not self.allowed_tools:
            return policies
        from .permissions import narrowed_by_skills  # here, because few skills have allowed tools

        return narrowed_by_skills(policies)


@lru_cache(maxsize=256)
def _permissions_of(tools: tuple[AllowedTool, ...]) -> "Permissions":
    return permissions_of(tools)


def decoded(content: bytes) -> str | None:
    r"""Return the text of a file in UTF-8, with `\n` at the ends of lines; None if it is no text."""
    if b"\0" in content:
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Skills(Mapping[str, Skill]):
    """Skills by name, in the order of names; found by `skills["tidy-up"]` and by `skills["tidy_up"]`.

    Args:
        skills: The skills.

    Raises:
        ConfigurationError: Two different ones have the same name.
    """

    __slots__ = ("_by_name", "_by_variable")

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._by_name = cast("dict[str, Skill]", merged_skills([skills]))
        self._by_variable = {each.variable_name: each for each in self._by_name.values()}

    def __getitem__(self, name: str) -> Skill:
        found = self._by_name.get(name) or self._by_variable.get(name)
        if found is None:
            raise KeyError(f"There is no skill {name!r}.{did_you_mean(name, tuple(self._by_name))}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._by_variable

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Skills({', '.join(self._by_name)})"

    def only(self, *names: str) -> "Skills":
        """Return some of them.

        Raises:
            KeyError: There is no skill of one of the names.
        """
        return Skills(self[name] for name in names)


SkillSource: TypeAlias = Union[Skill, Mapping[str, Skill], Iterable[Skill | Mapping[str, Skill]]]  # noqa: UP007
"""The argument `skills=`: one skill, skills by name, or several of these."""


def skills_of(source: SkillSource) -> Skills:
    """Return the argument `skills=` as skills.

    Raises:
        NighthawkError: It is something else.
        ConfigurationError: Two different skills have the same name.
    """
    if isinstance(source, Skills):
        return source
    return Skills(_each_of(source))


def _each_of(source: object) -> Iterator[Skill]:
    if isinstance(source, Skill):
        yield source
    elif isinstance(source, Mapping):
        yield from _each_of(tuple(cast("Mapping[str, object]", source).values()))
    elif isinstance(source, Iterable) and not isinstance(source, str):
        for each in cast("Iterable[object]", source):
            yield from _each_of(each)
    else:
        raise NighthawkError(
            f"skills must be what nighthawk_async.skills.load returns, or skills of it, not {source!r}"
        )


def with_skills(policies: Policies, added: Skills, *, is_added: bool = False) -> Policies:
    """Return the policies of a run or scope with skills: a step may read any of them, which may narrow it.

    Args:
        policies: The policies before.
        added: The skills.
        is_added: Whether they are added to those of the enclosing scope, or replace them.

    Raises:
        ConfigurationError: Two different skills have the same name.
    """
    inherited = cast("Mapping[str, Skill]", offered_skills(policies)) if is_added else Skills()
    skills = Skills([*inherited.values(), *added.values()])
    if not skills:
        return policies.without(ScopeSkills)
    policies = policies.with_policy(ScopeSkills(skills))
    for skill in skills.values():
        policies = skill.narrowed(policies)
    return policies
