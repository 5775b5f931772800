"""Steps whose conversation is compacted, in runs that continue: every life makes the same requests."""

from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import model_response
from tests.long_steps import Book, ReadingModel, executor_of, is_summary, read_all

from .durable_runs import opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

PAGES = 45
WINDOW = 9_000


class CrashError(BaseException):
    """The end of a life."""


class MortalModel(ReadingModel):
    """Reads pages until the process ends with the request of a number.

    Args:
        ends_at: The number of the request at which the life ends; -1 for none.
    """

    def __init__(self, ends_at: int = -1) -> None:
        super().__init__(PAGES, window=WINDOW)
        self._ends_at = ends_at

    def _reply(self, request: nh.models.ModelRequest) -> Any:
        if len(self.requests) - 1 == self._ends_at:
            self.requests.pop()
            raise CrashError
        if is_summary(request):
            self.sizes.append(0)
            return model_response(text=f"Read so far: {len(str(request))} characters.")
        return super()._reply(request)


async def live(store: nh.journal.JournalStore, model: ReadingModel, book: Book) -> int:
    async with nh.run(executor_of(model), journal=store, run_id="run-1"):
        return await read_all(book.page)


async def test_every_life_makes_the_requests_of_a_life_without_an_end(tmp_path: Path) -> None:
    whole = MortalModel()
    (tmp_path / "whole").mkdir()
    with opened(tmp_path / "whole") as store:
        assert await live(store, whole, Book()) == PAGES - 1
        first_summary = whole.requests.index(whole.summaries[0])
        again = MortalModel(0)
        assert await live(store, again, Book()) == PAGES - 1
        assert again.requests == []
    for ends_at in (whole.compactions[0], first_summary, first_summary + 1):
        folder = tmp_path / str(ends_at)
        folder.mkdir()
        with opened(folder) as store:
            before, after = MortalModel(ends_at), MortalModel()
            with pytest.raises(CrashError):
                await live(store, before, Book())
            assert await live(store, after, Book()) == PAGES - 1
        assert [*before.requests, *after.requests] == whole.requests
