"""The skills of a scope in the prompt, and `nh_skill`, with which a model reads them."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Annotated

import anyio.to_thread
import msgspec

from ..agent.toolbox import ProvidedTool, ResultRoom, decode_arguments, make_provided_tool
from ..errors import ConfigurationError, NighthawkError, ToolBoundaryError
from ..kernel.actor import Pending, StepActor
from ..kernel.commands import BlockingCall
from ..kernel.environment import Environment
from ..kernel.skill_scope import ScopedSkill, merged_skills
from ..kernel.tools import SKILL_TOOL_NAME
from ..ports import Model
from ..prompt.plain_text import safe_text
from ..prompt.tokens import TokenCounter
from ..threads import thread_limiter
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


def make_skill_tool(environment: Environment, room: ResultRoom, model: Model | None) -> ProvidedTool | None:
    """Make the tool that reads the skills of a step.

    Args:
        environment: The environment of the step.
        room: The room that results have.
        model: The model that is asked; None when that is not known.

    Returns:
        The tool; None if there is nothing to read: no skill in the scope, and no files of the skills that the
        block names.

    Raises:
        ConfigurationError: The block names a skill, and the scope has another one of that name.
    """
    active = environment.active_skills
    named = () if active is None else active.named.values()
    skills = merged_skills([(environment.skills or {}).values(), named])
    if not environment.skills and not any(each.files for each in named):
        return None
    takes_images = model is None or model.capabilities.images

    def post(actor: StepActor, arguments: str) -> Pending[object]:
        asked = decode_arguments(arguments, _Arguments)
        skill, file = _find(skills, asked)
        if active is not None:  # now, so that it counts for the calls that follow in the same response
            active.add(skill)
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
