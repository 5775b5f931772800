"""Skills in steps: those of a scope, those that a block names, those that are active in a step.

The prompt lists those of the scope, and with `nh_skill` a model reads them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar

import anyio.to_thread
import msgspec

from ..agent.policies import Offering
from ..agent.provided_tools import ProvidedTool, decode_arguments, make_provided_tool
from ..agent.toolbox import ResultRoom
from ..configuration import StepContextLimits
from ..errors import ConfigurationError, NaturalParseError, NighthawkError, ToolBoundaryError
from ..executions import Execution
from ..kernel.actor import Pending, StepActor
from ..kernel.context import StepContext
from ..kernel.environment import Environment
from ..kernel.policy import Naming, Policies, Position
from ..kernel.step import BlockPart, Chosen, Step
from ..kernel.tools import SKILL_TOOL_NAME
from ..natural.blocks import NaturalBlock
from ..natural.program import find_tokens, root_name
from ..ports import Model
from ..prompt.plain_text import safe_text
from ..prompt.tokens import TokenCounter
from ..threads import BlockingCall, thread_limiter
from ..types.messages import BinaryContent

_HEADING = (
    f"Skills are instructions for certain tasks. Before a task that one of them fits, read it with "
    f"{SKILL_TOOL_NAME}, and follow it:"
)
_DESCRIPTION = (
    "Read a skill, or one of its files. A long text comes in parts: call again with the offset that is given."
)
_MOST_NAMED = 20
_MOST_LARGEST = 5
_TOKENS_BESIDE_TEXT = 60
_CHARACTERS_PER_TOKEN = 4


class ScopedSkill(BlockPart, ABC):
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
    def narrowed(self, policies: Chosen) -> Chosen:
        """Return policies that narrow permissions in steps where it is active, if it says so."""

    def __join_step__(self, step: Step, name: str) -> None:
        """Add its text to the program of a step whose block names it, and make it active there.

        Raises:
            NaturalParseError: It sets a variable that the block does not set.
        """
        _check_bindings(self, step.block)
        section = f"<{name}> is this skill:\n<<<NH:SKILL>>>\n{safe_text(self.text)}\n<<<NH:END_SKILL>>>"
        step.program = f"{step.program.rstrip()}\n\n{section}"
        step.is_interpolated = True
        step.policies = self.narrowed(step.policies)
        _active_in(step).add_named(name, self)


class ActiveSkills(Offering):
    """The skills that are active in one step, and in the steps that it is part of.

    Args:
        parent: Those of the parent step; None for none.
        execution: The execution of the step; None for those of a caller in another process.

    Attributes:
        named: Those that the block names, by the names in its text.
    """

    position: ClassVar[Position] = Position.SKILLS
    holds_in_inner_runs: ClassVar[bool] = True

    __slots__ = ("_own", "_parent", "execution", "named")

    def __init__(self, parent: "ActiveSkills | None" = None, execution: Execution | None = None) -> None:
        self._parent = parent
        self._own: list[ScopedSkill] = []
        self.execution = execution
        self.named: dict[str, ScopedSkill] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _active_elsewhere, (tuple(self),)

    def add(self, skill: ScopedSkill) -> None:
        """Make a skill active that the model has read."""
        if skill not in self._own:
            self._own.append(skill)

    def add_named(self, name: str, skill: ScopedSkill) -> None:
        """Make a skill active that the block names."""
        self.named[name] = skill
        self._own.append(skill)

    def __iter__(self) -> Iterator[ScopedSkill]:
        if self._parent is not None:
            yield from self._parent
        yield from tuple(self._own)

    def prepare(self, step: Step) -> None:
        """Hide the names of named skills; skills that the step reads are active in it alone."""
        for name in _active_in(step).named:
            _hide(name, step.context)

    async def listed(self, environment: Environment, limits: StepContextLimits, counter: TokenCounter) -> str:
        """Return the list of the scope's skills; see `Offering.listed`."""
        offered = offered_skills(environment.policies)
        if not offered:
            return ""
        return await listed_skills(offered, limits.skills_max_tokens, counter)

    def provided_tool(
        self, environment: Environment, room: ResultRoom, model: Model | None
    ) -> ProvidedTool | None:
        """Return the tool that reads skills; see `Offering.provided_tool`."""
        return make_skill_tool(self, offered_skills(environment.policies), room, model)


def _active_elsewhere(skills: Iterable[ScopedSkill]) -> ActiveSkills:
    active = ActiveSkills()
    for skill in skills:
        active.add(skill)
    return active


def _active_in(step: Step) -> ActiveSkills:
    """Return the active skills of a step; they begin with those of the step that it is part of."""
    found: ActiveSkills | None = step.policies.find(ActiveSkills)
    if found is None or found.execution is not step.execution:
        found = ActiveSkills(found, step.execution)
        step.policies = step.policies.with_policy(found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ScopeSkills(Naming):
    """Offers the skills of a run or scope to its steps.

    Args:
        skills: The skills by name; also found by their names as variables.
    """

    skills: Mapping[str, ScopedSkill]

    position: ClassVar[Position] = Position.SKILLS

    def named(
        self, names: Iterable[str], variables: Iterable[Mapping[str, object]]
    ) -> Mapping[str, ScopedSkill]:
        """Return the skills that a block names, except where a variable has the name."""
        scopes = tuple(variables)
        return {
            name: self.skills[name]
            for name in names
            if name in self.skills and not any(name in each for each in scopes)
        }

    def prepare(self, step: Step) -> None:
        """Let the step read them."""
        _active_in(step)


def offered_skills(policies: Policies) -> Mapping[str, ScopedSkill]:
    """Return the skills of the innermost run or scope."""
    scope = policies.find(ScopeSkills)
    return {} if scope is None else scope.skills


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


def _hide(name: str, context: StepContext) -> None:
    """Hide the name of a skill from a step, which sees its text instead, unless it reads a field of it."""
    if any("." in path and root_name(path) == name for path in context.references):
        return
    context.references = tuple(path for path in context.references if path != name)
    context.mentions = tuple(path for path in context.mentions if path != name)
    context.step_locals.pop(name, None)
    context.referenced_globals = {
        other: value for other, value in context.referenced_globals.items() if other != name
    }


async def listed_skills(skills: Mapping[str, ScopedSkill], limit: int, counter: TokenCounter) -> str:
    """Return the names and descriptions of skills as a part of the system prompt.

    Args:
        skills: The skills.
        limit: The greatest number of tokens.
        counter: Counts tokens.

    Raises:
        ConfigurationError: They have more tokens.
    """
    text = skill_list(skills)
    if len(text.encode(errors="replace")) > limit and not counter.is_loaded:
        await anyio.to_thread.run_sync(counter.load, limiter=thread_limiter())
    if _exceeds(counter, text, limit):
        raise _too_long(skills, counter.count(text), limit, counter)
    return text


@lru_cache(maxsize=64)
def _exceeds(counter: TokenCounter, text: str, limit: int) -> bool:
    return counter.exceeds(text, limit)


def skill_list(skills: Mapping[str, ScopedSkill]) -> str:
    """Return the names and descriptions of skills as the system prompt has them."""
    return "\n".join([_HEADING, *map(skill_line, skills.values())])


def skill_line(skill: ScopedSkill) -> str:
    """Return the name and the description of one skill on one line."""
    return f"- {skill.name}: {safe_text(' '.join(skill.description.split()))}"


def _too_long(
    skills: Mapping[str, ScopedSkill], size: int, limit: int, counter: TokenCounter
) -> ConfigurationError:
    sizes = {name: counter.count(skill_line(skill)) for name, skill in skills.items()}
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:_MOST_LARGEST]
    return ConfigurationError(
        f"The names and descriptions of {len(skills)} skills have {size:,} tokens; skills_max_tokens of the "
        f"StepContextLimits is {limit:,}. The largest: "
        f"{', '.join(f'{name} ({sizes[name]:,})' for name in largest)}. Offer fewer skills, as with "
        "skills.only(…), shorten their descriptions, or raise the limit."
    )


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    file: str | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None


def make_skill_tool(
    active: ActiveSkills, offered: Mapping[str, ScopedSkill], room: ResultRoom, model: Model | None
) -> ProvidedTool | None:
    """Make the tool that reads the skills of a step.

    Args:
        active: The active skills of the step.
        offered: The skills of its scope.
        room: The room that results have.
        model: The model that is asked; None when that is not known.

    Returns:
        The tool; None if there is nothing to read: no skill in the scope, and no files of the skills that the
        block names.

    Raises:
        ConfigurationError: The block names a skill, and the scope has another one of that name.
    """
    named = active.named.values()
    skills = merged_skills([offered.values(), named])
    if not offered and not any(each.files for each in named):
        return None
    takes_images = model is None or model.capabilities.images

    def post(actor: StepActor, arguments: str) -> Pending[object]:
        asked = decode_arguments(arguments, _Arguments)
        skill, file = _find(skills, asked)
        active.add(skill)  # now, so that it counts for the calls that follow in the same response
        page = partial(
            page_of, offset=asked.offset or 0, max_tokens=room.max_tokens, counter=room.policy.counter
        )
        reading = BlockingCall(partial(_read, skill, file, page, takes_images=takes_images))
        return actor.post_call(SKILL_TOOL_NAME, lambda: reading)

    return make_provided_tool(
        SKILL_TOOL_NAME,
        _DESCRIPTION,
        {"name": {"type": "string"}, "file": {"type": "string"}, "offset": {"type": "integer"}},
        required=("name",),
        post=post,
    )


def _find(skills: Mapping[str, ScopedSkill], asked: _Arguments) -> tuple[ScopedSkill, str | None]:
    """Return the skill and the path of the file that are asked for; both are looked up, not joined to paths.

    Raises:
        ToolBoundaryError: There are none of these names.
    """
    skill = skills.get(asked.name)
    if skill is None:
        raise ToolBoundaryError(
            kind="resolution",
            message=f"there is no skill named {asked.name!r}",
            guidance=f"Skills: {_listed(skills)}.",
        )
    if asked.file is None:
        return skill, None
    file = asked.file.removeprefix("./")
    if file not in skill.files and file != "SKILL.md":
        raise ToolBoundaryError(
            kind="resolution",
            message=f"the skill {skill.name!r} has no file {asked.file!r}",
            guidance=f"Files: {_listed(skill.files)}." if skill.files else "It has no files.",
        )
    return skill, file


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    more = len(shown) - _MOST_NAMED
    return ", ".join([*shown[:_MOST_NAMED], *((f"and {more} more",) if more > 0 else ())])


def _read(
    skill: ScopedSkill, file: str | None, page: Callable[[str], object], *, takes_images: bool
) -> object:
    """Return the instructions of a skill, or one of its files. Blocks."""
    try:
        content = skill.text if file is None else skill.read(file)
    except NighthawkError as error:
        raise ToolBoundaryError(
            kind="execution", message=str(error), guidance="Go on without this file."
        ) from error
    if not isinstance(content, BinaryContent):
        return page(content)
    if not takes_images:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the file {file!r} is an image ({content.media_type}), and this model takes no images",
            guidance="Go on without this file.",
        )
    return content


def page_of(text: str, *, offset: int, max_tokens: int, counter: TokenCounter) -> str | dict[str, object]:
    """Return the part of a text that a tool result can hold, with the offset of the next one if there is one.

    Args:
        text: The text.
        offset: The number of characters before the part.
        max_tokens: The greatest number of tokens of the result.
        counter: Counts tokens.

    Raises:
        ToolBoundaryError: The text ends before the part.
    """
    if offset and offset >= len(text):
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the offset {offset:,} is beyond the end of the {len(text):,} characters",
            guidance="Take the next_offset of the part before, or none for the beginning.",
        )
    end = _end_of_page(text, offset, max(max_tokens - _TOKENS_BESIDE_TEXT, max_tokens // 3, 1), counter)
    if end == len(text):
        return text[offset:]
    return {"text": text[offset:end], "next_offset": end, "characters": len(text)}


def _end_of_page(text: str, offset: int, max_tokens: int, counter: TokenCounter) -> int:
    """The end of a part: that of a line, unless a single line is too long."""
    length = max_tokens * _CHARACTERS_PER_TOKEN
    while True:
        end = min(offset + length, len(text))
        if end < len(text):
            end = text.rfind("\n", offset + length // 2, end) + 1 or end
        if length == 1 or not counter.exceeds(json.dumps(text[offset:end], ensure_ascii=False), max_tokens):
            return end
        length = max(1, length * 3 // 4)
