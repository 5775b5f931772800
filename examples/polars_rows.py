"""Add a column to a table of Polars; equal texts are asked for once."""

# pip install polars; python polars_rows.py reviews.csv
import sys
from typing import Literal

import anyio
import polars as pl

import nighthawk_async as nh
from nighthawk_async import parallel

MODEL = "openai-responses:gpt-5.4-nano"
Mood = Literal["good", "bad", "mixed"]


@nh.natural_function
async def mood_of(review: str) -> Mood:
    mood: Mood = nh.unset
    """natural
    Set <:mood> to that of <review>.
    """
    return mood


async def main(source: str) -> pl.DataFrame:
    rows = pl.read_csv(source)
    reviews = rows["review"].unique(maintain_order=True).to_list()
    async with nh.run(MODEL):
        moods = await parallel.map(mood_of, reviews, max_concurrent=8, progress=True)
    found = pl.DataFrame({"review": reviews, "mood": moods})
    return rows.join(found, on="review", how="left", maintain_order="left")


if __name__ == "__main__":
    print(anyio.run(main, sys.argv[1]))
