"""A model server whose answers are written by people or agents, as files."""

import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import anyio
import anyio.to_thread
from anyio.from_thread import start_blocking_portal

from .answer_forms import AnswerFormError, read_answer, readable_request
from .model_reply import ModelReply, RecordedRequest
from .model_server import ModelServer

_POLL_SECONDS = 0.1
_ENDINGS = (".answer.json", ".answer.txt")


class AnswerServer:
    """Queues each request of a model as files, and waits for a file with the answer.

        async with AnswerServer(folder) as server:
            settings = {"base_url": server.base_url, "first_event_timeout": None}
            configuration = StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)

    So anybody can sit in the model's chair: a person, a script, or an agent that reads and writes files. Like
    `ModelServer`, it speaks Chat Completions, OpenAI Responses, Anthropic Messages and the Gemini API.

    The request with the number 7 is `0007.request.txt`, to be read, and `0007.request.json`, as it was sent.
    Its answer is the file `0007.answer.json` or `0007.answer.txt`, in a form of `answer_forms.read_answer`. A
    text is taken as it is, so write it elsewhere and rename it. JSON that is no answer is read again when it
    has changed; `0007.refused.txt` says why. If the client leaves, there is `0007.left.txt` instead.

    The limits of the client apply: the settings `timeout`, `first_event_timeout` and
    `idle_timeout` (None for no limit) give time to write.

    Args:
        folder: The folder of the files; it is made if it is not there. Numbers go on after those in it.
        port: The port on the loopback; 0 for any that is free.

    Raises:
        OSError: The folder cannot be made, or the port is taken.
    """

    def __init__(self, folder: str | Path, *, port: int = 0) -> None:
        self.folder = Path(folder)
        self._server = ModelServer(self._answer, port=port)
        self._latest = 0

    @classmethod
    @contextmanager
    def in_thread(
        cls, folder: str | Path, *, port: int = 0, backend: Literal["asyncio", "trio"] = "asyncio"
    ) -> Generator[Self, None, None]:
        """Return a server with its own event loop in a thread, for programs without one.

        Args:
            folder: As for the class itself.
            port: As for the class itself.
            backend: The event loop.
        """
        with (
            start_blocking_portal(backend) as portal,
            portal.wrap_async_context_manager(cls(folder, port=port)) as server,
        ):
            yield server

    async def __aenter__(self) -> Self:
        """Open the port."""
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = (path.name.partition(".")[0] for path in self.folder.glob("*.*.*"))
        self._latest = max((int(number) for number in numbers if number.isdecimal()), default=0)
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the port and every connection."""
        await self._server.__aexit__(exception_type, exception, traceback)

    @property
    def base_url(self) -> str:
        """The base URL for clients, as the model setting `base_url`."""
        return self._server.base_url

    @property
    def waiting(self) -> list[int]:
        """The numbers of the requests that wait for an answer."""
        names = (path.name for path in self.folder.glob("*.request.json"))
        return sorted(int(name.partition(".")[0]) for name in names if not self._find_answer(name))

    def _find_answer(self, request: str) -> Path | None:
        number = request.partition(".")[0]
        paths = (self.folder / f"{number}{ending}" for ending in _ENDINGS)
        return next((path for path in paths if path.exists()), None)

    async def _answer(self, request: RecordedRequest) -> ModelReply:
        self._latest += 1
        number = f"{self._latest:04}"
        await anyio.to_thread.run_sync(self._queue, number, request)
        try:
            return await self._wait(number)
        except BaseException:  # the client has left, or the server ends
            with suppress(OSError):
                (self.folder / f"{number}.request.txt").rename(self.folder / f"{number}.left.txt")
                (self.folder / f"{number}.request.json").unlink()
            raise

    def _queue(self, number: str, request: RecordedRequest) -> None:
        readable = readable_request(request.path.partition("?")[0], request.body)
        body = json.dumps(request.body, ensure_ascii=False, indent=2)
        (self.folder / f"{number}.request.txt").write_text(f"{readable}\n{_hint(number)}", encoding="utf-8")
        part = self.folder / f"{number}.part"
        part.write_text(body, encoding="utf-8")
        part.rename(self.folder / f"{number}.request.json")  # last, and at once: who sees it may answer

    async def _wait(self, number: str) -> ModelReply:
        refused: tuple[Path, str] | None = None
        while True:
            path = self._find_answer(number)
            text = None if path is None else await anyio.to_thread.run_sync(_read, path)
            if path is not None and text is not None and (path, text) != refused:
                try:
                    return read_answer(text) if path.suffix == ".json" else ModelReply(text=text)
                except AnswerFormError as error:
                    refused = path, text
                    (self.folder / f"{number}.refused.txt").write_text(f"{path.name}: {error}\n")
            await anyio.sleep(_POLL_SECONDS)


def _read(path: Path) -> str | None:
    """The text of a file; None if it is gone, or is not whole yet."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            json.loads(text)
    except (OSError, ValueError):
        return None
    return text


def _hint(number: str) -> str:
    return (
        f"## your answer\n\nWrite {number}.answer.txt with a text, or {number}.answer.json with\n"
        '{"text": "…", "tool_calls": [{"name": "…", "arguments": {…}}]}\n'
    )
