"""`load`: skills from folders."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ..confined_files import ConfinedFiles, OutsideWorkspaceError, WorkspaceError
from ..errors import ConfigurationError
from ..suggestions import did_you_mean
from .allowed_tools import AllowedTool, parse_allowed_tools
from .errors import SkillFault, SkillsError
from .frontmatter import Document, Field, parse_document
from .skill import INSTRUCTIONS, Skill, Skills, decoded

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_MOST_NAME = 64
_MOST_DESCRIPTION = 1024
_MOST_COMPATIBILITY = 500
_MOST_INSTRUCTIONS_BYTES = 256_000
_MOST_FILES = 1_000
_MOST_SKILLS = 1_000
_MOST_DEPTH = 20
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


def load(*folders: str | os.PathLike[str]) -> Skills:
    """Load skills: folders with a `SKILL.md` in the open format of agentskills.io.

        skills = nh.skills.load("skills/")

    Reads every `SKILL.md`, and lists the other files. It is a plain function that blocks: call it once, when
    the program starts. Entries whose names begin with `.` or `_` are left out, and so are `__pycache__` and
    `node_modules`. Nothing outside of the folders is read: no link is followed out of a skill.

    Args:
        folders: Folders of skills, and folders that are skills themselves.

    Returns:
        The skills by name.

    Raises:
        SkillsError: Something is not as the format says, a folder does not exist or has no skills, or two
            skills have the same name. The error lists every fault of every skill.
    """
    faults: list[SkillFault] = []
    skills: dict[str, Skill] = {}
    for folder in _skill_folders(folders, faults):
        skill = _Loading(folder, faults).load()
        if skill is None:
            continue
        other = skills.setdefault(skill.name, skill)
        if other != skill:
            faults.append(
                SkillFault(path=str(folder), message=f"{other.folder} has a skill {skill.name!r} as well")
            )
    if faults:
        raise SkillsError(sorted(faults, key=lambda fault: (fault.path, fault.line or 0)))
    return Skills(skills.values())


def _skill_folders(folders: tuple[str | os.PathLike[str], ...], faults: list[SkillFault]) -> Iterator[Path]:
    if not folders:
        faults.append(SkillFault(path="load()", message="name a folder"))
    count = 0
    for given in folders:
        for folder in _folders_in(Path(os.path.abspath(given)), faults):
            count += 1
            if count > _MOST_SKILLS:
                faults.append(SkillFault(path=str(given), message=f"more than {_MOST_SKILLS:,} skills"))
                return
            yield folder


def _folders_in(folder: Path, faults: list[SkillFault]) -> Iterator[Path]:
    """The folders of skills in a folder, or the folder itself; a folder without skills is a fault."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        faults.append(SkillFault(path=str(folder), message=f"cannot be read: {reason}"))
        return
    inner = [name for name in names if not _is_left_out(name) and (folder / name).is_dir()]
    if INSTRUCTIONS in names or (_misspelled(names) and not inner):
        yield folder
        return
    for name in inner:
        path = folder / name
        if path.is_symlink():
            faults.append(
                SkillFault(path=str(path), message="is a link, which is not followed; load its target itself")
            )
        else:
            yield path
    if not inner:
        message = f"there are no skills in it, and no {INSTRUCTIONS}"
        faults.append(SkillFault(path=str(folder), message=message))


def _is_left_out(name: str) -> bool:
    return name.startswith((".", "_")) or name in _SKIPPED_FOLDERS


class _Loading:
    """Loads one skill.

    Args:
        folder: Its folder, an absolute path.
        faults: Gets the faults.
    """

    def __init__(self, folder: Path, faults: list[SkillFault]) -> None:
        self._folder = folder
        self._faults = faults
        self._path = str(folder / INSTRUCTIONS)
        self._known = len(faults)

    def load(self) -> Skill | None:
        try:
            files = ConfinedFiles(self._folder)
        except ConfigurationError as error:
            self._report(str(error), None)
            return None
        document = self._document(files)
        listed = self._listed(files)
        if document is None:
            return None
        skill = self._skill(document, listed)
        return skill if len(self._faults) == self._known else None

    def _report(self, message: str, line: int | None, *, path: str | None = None) -> None:
        self._faults.append(SkillFault(path=path or self._path, message=message, line=line))

    def _document(self, files: ConfinedFiles) -> Document | None:
        try:
            content = files.read(INSTRUCTIONS, _MOST_INSTRUCTIONS_BYTES)
        except OutsideWorkspaceError:
            self._report("leads out of the folder of the skill", None)
            return None
        except WorkspaceError as error:
            other = None
            with suppress(OSError):
                other = _misspelled(os.listdir(self._folder))
            hint = f"; the name of {other} must be {INSTRUCTIONS}" if other else ""
            self._report(f"{str(error).removeprefix(f'{INSTRUCTIONS}: ')}{hint}", None)
            return None
        text = decoded(content)
        if text is None:
            self._report("is no text in UTF-8", None)
            return None
        return parse_document(text, self._report)

    def _skill(self, document: Document, files: Mapping[str, int]) -> Skill:
        fields = document.fields
        for name, field in fields.items():
            if name not in _FIELDS:
                hint = did_you_mean(name, _FIELDS) or " Put it below 'metadata'."
                self._report(f"the format has no field {name!r}.{hint}", field.line)
        return Skill(
            name=self._name(fields),
            description=self._required(fields, "description", _MOST_DESCRIPTION),
            body=document.body,
            folder=self._folder,
            license=self._text(fields, "license"),
            compatibility=self._compatibility(fields),
            metadata=self._metadata(fields),
            allowed_tools=self._allowed_tools(fields),
            files=files,
        )

    def _name(self, fields: Mapping[str, Field]) -> str:
        name = self._required(fields, "name", _MOST_NAME)
        if not name:
            return name
        line = fields["name"].line
        if _NAME.fullmatch(name) is None:
            self._report(
                f"the name {name!r} may have lowercase letters a-z, digits, and single hyphens between them",
                line,
            )
        if name != self._folder.name:
            self._report(f"the name {name!r} must be that of the folder, {self._folder.name!r}", line)
        return name

    def _required(self, fields: Mapping[str, Field], name: str, most: int) -> str:
        if name not in fields:
            self._report(f"{name!r} is missing", 1)
            return ""
        text = self._text(fields, name)
        line = fields[name].line
        if text is not None and not text:
            self._report(f"{name!r} is empty", line)
        elif text is not None and len(text) > most:
            self._report(f"{name!r} has {len(text):,} characters; the most is {most:,}", line)
            return text
        return text or ""

    def _text(self, fields: Mapping[str, Field], name: str) -> str | None:
        """The text of a field without blanks at both ends; None if there is none."""
        field = fields.get(name)
        if field is None:
            return None
        if not isinstance(field.value, str):
            self._report(f"{name!r} must be one text", field.line)
            return None
        if _CONTROL.search(field.value):
            self._report(f"{name!r} has control characters", field.line)
        return field.value.strip()

    def _compatibility(self, fields: Mapping[str, Field]) -> str | None:
        text = self._text(fields, "compatibility")
        if text is not None and len(text) > _MOST_COMPATIBILITY:
            self._report(
                f"'compatibility' has {len(text):,} characters; the most is {_MOST_COMPATIBILITY:,}",
                fields["compatibility"].line,
            )
        return text or None

    def _metadata(self, fields: Mapping[str, Field]) -> Mapping[str, str]:
        field = fields.get("metadata")
        if field is None:
            return {}
        if not isinstance(field.value, Mapping):
            self._report("'metadata' must be a mapping of texts", field.line)
            return {}
        return field.value

    def _allowed_tools(self, fields: Mapping[str, Field]) -> tuple[AllowedTool, ...]:
        text = self._text(fields, "allowed-tools")
        if text is None:
            return ()
        tools, faults = parse_allowed_tools(text)
        for fault in faults:
            self._report(fault, fields["allowed-tools"].line)
        return tuple(tools)

    def _listed(self, files: ConfinedFiles) -> dict[str, int]:
        """The sizes of the files, in the order of their paths."""
        listed: dict[str, int] = {}
        count = 0
        for parent, folders, names in os.walk(self._folder, onerror=self._report_unreadable):
            folders[:] = sorted(name for name in folders if not _is_hidden(name))
            count += len(folders) + len(names)
            if count > _MOST_FILES:
                self._report(f"has more than {_MOST_FILES:,} files and folders", None, path=str(self._folder))
                return {}
            if len(Path(parent).relative_to(self._folder).parts) == _MOST_DEPTH and folders:
                self._report(f"has folders more than {_MOST_DEPTH} deep", None, path=parent)
                folders.clear()
            for name in [*(each for each in folders if Path(parent, each).is_symlink()), *names]:
                path = Path(parent, name).relative_to(self._folder).as_posix()
                if path != INSTRUCTIONS and not _is_hidden(name):
                    self._list(files, path, listed)
        return dict(sorted(listed.items()))

    def _report_unreadable(self, error: OSError) -> None:
        self._report(f"cannot be read: {error.strerror}", None, path=str(error.filename))

    def _list(self, files: ConfinedFiles, path: str, listed: dict[str, int]) -> None:
        where = str(self._folder / path)
        if not path.isprintable():
            self._report("a name must be printable text", None, path=where)
            return
        try:
            real = files.real_path(path)
            if files.mode(path) is not None:
                listed[path] = (self._folder / real).stat().st_size
        except OutsideWorkspaceError:
            self._report("is a link that leads out of the folder of the skill", None, path=where)
        except WorkspaceError as error:
            if not Path(where).is_dir():  # the files of a linked folder are listed where they are
                self._report(f"is no file: {error}", None, path=where)
        except OSError as error:
            self._report(f"cannot be read: {error.strerror}", None, path=where)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED_FOLDERS


def _misspelled(names: list[str]) -> str | None:
    """The name of a file that was probably meant as `SKILL.md`."""
    return next(
        (name for name in names if name.lower() == INSTRUCTIONS.lower() and name != INSTRUCTIONS), None
    )
