"""The command lines of coding agents: their versions, their processes, and media they cannot be sent."""

import logging
import mimetypes
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import Logger
from types import TracebackType
from typing import Self

import anyio
from anyio import move_on_after
from msgspec import Struct

from ..catalog.coding_agents import CodingAgentFacts
from ..errors import UnsupportedContentError
from ..line_process import LineProcess, text_of
from ..types.messages import BinaryContent, MultimodalContent, UploadedFile, UserContent
from ..wire.media import bare_media_type, describe_media
from ..wire.redaction import find_secrets, redact
from .errors import CodingAgentMissingError, CodingAgentVersionError
from .settings import CodingAgentSettings

_LOGGER = logging.getLogger("nighthawk.coding_agents")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARACTERS = 60


class StagedMedia:
    """The files of one step, in a folder for this user alone. The folder is made for the first one.

    A context manager; the files are removed at its end.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        self._files: list[tuple[BinaryContent, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def fit(
        self, content: Iterable[UserContent], is_sent: Callable[[MultimodalContent], bool]
    ) -> tuple[UserContent, ...]:
        """Return content with texts in place of media that are not sent: their descriptions and files.

        Args:
            content: The content.
            is_sent: Whether a medium can be sent as it is.
        """
        items: list[UserContent] = []
        for item in content:
            if not isinstance(item, str) and not is_sent(item):
                item = await self._text_of(item)
            items.append(item)
        return tuple(items)

    async def _text_of(self, item: MultimodalContent) -> str:
        description = describe_media(item)
        if not isinstance(item, BinaryContent):
            return f"[{description}]"
        path = next((path for kept, path in self._files if kept is item), None)
        try:
            if path is None:
                path = self._new_path(item)
                await anyio.Path(path).write_bytes(item.data)
        except OSError as error:
            _LOGGER.warning("%s could not be written to a file: %s", description, error)
            return f"[{description}]"
        return f"[{description}, in the file {path}]"

    def _new_path(self, item: BinaryContent) -> str:
        self._folder = self._folder or tempfile.mkdtemp(prefix="nighthawk-media-")
        path = os.path.join(self._folder, f"{len(self._files) + 1}-{_file_name(item)}")
        self._files.append((item, path))
        return path


def refuse_uploaded_files(title: str, prompt: Iterable[UserContent]) -> None:
    """Refuse files that were uploaded to a provider: agents do not get at them.

    Args:
        title: The name of the agent.
        prompt: The prompt of a step.

    Raises:
        UnsupportedContentError: The prompt holds one.
    """
    for item in prompt:
        if isinstance(item, UploadedFile):
            raise UnsupportedContentError(
                f"{title} cannot be sent {describe_media(item)}; give the step the content itself or its URL."
            )


def _file_name(item: BinaryContent) -> str:
    """A name that is fit for every file system, with the ending of the media type."""
    given = _UNFIT.sub("_", item.identifier or "")[-_MAX_NAME_CHARACTERS:].lstrip(".")
    if "." in given:
        return given
    media_type = bare_media_type(item.media_type)
    subtype = media_type.rpartition("/")[2]
    ending = mimetypes.guess_extension(media_type) or (f".{subtype}" if subtype.isalnum() else ".bin")
    return (given or "media") + ending


_VERSION = re.compile(rb"(\d+)\.(\d+)\.(\d+)")
_VERSION_SECONDS = 30.0
_TERMINATE_SECONDS = 0.7
_versions: dict[tuple[str, int, int], tuple[int, ...]] = {}  # by path, time of change and size


async def find_executable(facts: CodingAgentFacts, settings: CodingAgentSettings) -> str:
    """Return the path of an agent's command line, once its version is known to be new enough.

    Args:
        facts: The agent.
        settings: Its settings.

    Raises:
        CodingAgentMissingError: It was not found, or does not start.
        CodingAgentVersionError: It is too old.
    """
    path = locate_executable(facts, settings)
    await check_version(facts, path)
    return path


def locate_executable(facts: CodingAgentFacts, settings: CodingAgentSettings) -> str:
    """Return the absolute path of an agent's command line.

    Args:
        facts: The agent.
        settings: Its settings.

    Raises:
        CodingAgentMissingError: It was not found.
    """
    name = settings.executable or facts.command
    path = shutil.which(name, path=settings.environment.get("PATH"))
    if path is None:
        raise CodingAgentMissingError(
            f"{facts.title} was not found: there is no program {name!r}"
            + (" on PATH" if os.sep not in name else "")
            + f". Install it with 'npm install -g {facts.package}', or set the setting 'executable'.",
            agent=facts.title,
        )
    return os.path.abspath(path)


async def check_version(facts: CodingAgentFacts, path: str) -> None:
    """Refuse a command line that does not start, or is too old. The answer is kept for the path.

    Args:
        facts: The agent.
        path: The path of its command line.

    Raises:
        CodingAgentMissingError: It does not start.
        CodingAgentVersionError: It is too old.
    """
    found = await _version_of(facts, path)
    if found < facts.minimum_version:
        shown, needed = _shown(found), _shown(facts.minimum_version)
        raise CodingAgentVersionError(
            f"{facts.title} {shown} ({path}) is too old; version {needed} or later is needed. Update it, as "
            f"with 'npm install -g {facts.package}'",
            agent=facts.title,
            found=shown,
            needed=needed,
        )


async def _version_of(facts: CodingAgentFacts, path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
        key = (path, status.st_mtime_ns, status.st_size)
        if key not in _versions:
            with move_on_after(_VERSION_SECONDS):
                done = await anyio.run_process([path, "--version"], check=False, start_new_session=True)
                _versions[key] = _parsed(facts, path, done.stdout, done.stderr)
    except OSError as error:
        raise CodingAgentMissingError(
            f"{facts.title} cannot be started ({path}): {error}", agent=facts.title
        ) from error
    if key not in _versions:
        raise CodingAgentMissingError(
            f"{facts.title} ({path}) did not tell its version within {_VERSION_SECONDS:g} seconds",
            agent=facts.title,
        )
    return _versions[key]


def _parsed(facts: CodingAgentFacts, path: str, output: bytes, log: bytes) -> tuple[int, ...]:
    match = _VERSION.search(output)
    if match is None:
        lines = [text_of(line) for line in log.splitlines() if line.strip()]
        raise CodingAgentMissingError(
            f"{facts.title} ({path}) does not tell its version; install it anew, as with "
            f"'npm install -g {facts.package}'",
            agent=facts.title,
            last_lines=lines[-8:],
        )
    return tuple(map(int, match.groups()))


def _shown(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


class AgentCommand(Struct, frozen=True, kw_only=True):
    """A command to start.

    Args:
        name: The name in logs.
        arguments: The program and its arguments.
        environment: All environment variables; secrets among them are not shown in logs and errors.
        folder: The working directory; None for that of the program.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str | None

    def __repr__(self) -> str:
        return f"<the command of {self.name}>"  # the environment and the arguments may hold secrets

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of what is started."""
        return (self.arguments, frozenset(self.environment.items()), self.folder)

    async def start(self, logger: Logger) -> LineProcess:
        """Start it.

        Raises:
            CodingAgentMissingError: It cannot be started.
        """
        secrets = tuple(find_secrets(self.environment))
        try:
            return await LineProcess.start(
                self.name,
                self.arguments,
                environment=self.environment,
                folder=self.folder,
                logger=logger,
                redacted=lambda text: redact(text, secrets=secrets),
            )
        except OSError as error:
            where = "" if self.folder is None else f" in {self.folder}"
            raise CodingAgentMissingError(
                f"{self.name} cannot be started{where}: {error}", agent=self.name
            ) from error


class ProcessPool:
    """The processes of one command in one run.

    The first step starts its own. From the second one on, one more is started ahead, since more steps are
    likely to follow; so there is at most one process more than there are steps, and none after the run.

    Args:
        facts: The agent. Its version is checked once, before the first process.
        command: The command.
        logger: Gets what the processes write to their standard error.
    """

    def __init__(self, facts: CodingAgentFacts, command: AgentCommand, logger: Logger) -> None:
        self._facts = facts
        self._command = command
        self._logger = logger
        self._taken = 0
        self._spare: LineProcess | None = None
        self._is_starting = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await check_version(self._facts, self._command.arguments[0])
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_closed = True
        spare, self._spare = self._spare, None
        if spare is not None:
            await end_process(spare, close_seconds=0)

    async def take(self) -> LineProcess:
        """Return a process for one step, which ends it.

        Raises:
            CodingAgentMissingError: It cannot be started.
        """
        self._taken += 1
        spare, self._spare = self._spare, None
        if spare is not None:
            if not spare.has_ended:
                return spare
            await end_process(spare, close_seconds=0)
        return await self._command.start(self._logger)

    async def refill(self) -> None:
        """Start a process ahead, if more steps are likely to follow."""
        if self._taken < 2 or self._spare is not None or self._is_starting or self._is_closed:
            return
        self._is_starting = True
        try:
            started = await self._command.start(self._logger)
        except CodingAgentMissingError as error:  # the next step finds out by itself
            self._logger.warning("%s", error)
            return
        finally:
            self._is_starting = False
        if self._is_closed:  # the run has ended meanwhile
            await end_process(started, close_seconds=0)
        else:
            self._spare = started


async def end_process(process: LineProcess, *, close_seconds: float) -> None:
    """End a process with its whole group; shielded from cancellation, and bounded.

    Args:
        process: The process.
        close_seconds: Seconds that it has to end by itself.
    """
    with anyio.CancelScope(shield=True):
        await process.end(close_seconds=close_seconds, terminate_seconds=_TERMINATE_SECONDS)
