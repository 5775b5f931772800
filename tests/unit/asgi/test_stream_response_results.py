"""What the last event of a stream says: a result as JSON, or that it cannot be sent."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.unit.asgi.asgi_client import get
from tests.unit.asgi.event_stream_scripts import read, served

pytestmark = pytest.mark.anyio


class Rating(BaseModel):
    stars: int
    of: datetime


async def test_the_result_is_what_pydantic_makes_of_it() -> None:
    async def rate() -> Any:
        rating = Rating(stars=3, of=datetime(2026, 1, 2, tzinfo=UTC))
        return {"rating": rating, "share": float("nan"), "tags": {1}, "raw": b"\xff"}

    told = read(await get(served(rate)))
    rating = {"stars": 3, "of": "2026-01-02T00:00:00Z"}
    assert told.told[-1] == {"value": {"rating": rating, "share": "NaN", "tags": [1], "raw": "_w=="}}


class Share(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    share: float


@pytest.mark.parametrize(("share", "text"), [(float("nan"), "NaN"), (float("-inf"), "-Infinity")])
async def test_what_no_json_can_say_is_a_text_though_a_model_says_otherwise(share: float, text: str) -> None:
    async def give() -> Share:
        return Share(share=share)

    told = read(await get(served(give)))
    assert (told.names[-1], told.told[-1]) == ("result", {"value": {"share": text}})


@pytest.mark.parametrize("value", [object(), "x" * 101, [1] * 100, 10**5_000], ids=type)
async def test_a_result_that_cannot_be_sent_is_an_error(value: object) -> None:
    async def give() -> object:
        return value

    told = read(await get(served(give, max_result_bytes=100)))
    assert told.names[-1] == "error"
    assert told.told[-1]["type"].endswith(":result-not-representable")
