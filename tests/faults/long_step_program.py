"""A program with a step that is compacted; see `test_long_step_kills`."""

import hashlib
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.testing.killing import mark
from tests.long_steps import Book, ReadingModel, executor_of, is_summary, read_all

ASKED = "asked.txt"
PAGES = 60


class LoggingModel(ReadingModel):
    """Writes down the kind and the digest of each request before it answers."""

    def __init__(self, folder: str) -> None:
        super().__init__(PAGES, window=12_000)
        self._log = Path(folder) / ASKED

    def _reply(self, request: nh.models.ModelRequest) -> Any:
        text = repr((request.system_prompt, request.messages, request.tools))
        kind = "summary" if is_summary(request) else "shortened" if "[Shortened: " in text else "plain"
        with self._log.open("a") as file:
            file.write(f"{kind} {hashlib.sha256(text.encode()).hexdigest()}\n")
        mark("asked")
        return super()._reply(request)


def main(folder: str, backend: str) -> list[Any]:
    """Run one life; return the result of the step and the digest of its transcript."""

    async def run() -> list[Any]:
        with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
            async with nh.run(executor_of(LoggingModel(folder)), journal=store, run_id="run-1"):
                result = await read_all(Book().page)
                text = nh.transcript().to_json()
        return [result, hashlib.sha256(text.encode()).hexdigest()]

    return anyio.run(run, backend=backend)
