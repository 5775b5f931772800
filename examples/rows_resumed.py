"""Label two thousand rows; started again after a crash, it goes on where it was."""

# python rows_resumed.py in.csv out.csv
import csv
import sys
from pathlib import Path
from typing import Literal

import anyio

import nighthawk_async as nh
from nighthawk_async import parallel

MODEL = "openai-responses:gpt-5.4-nano"
Label = Literal["praise", "complaint", "question"]


@nh.natural_function
async def classify(text: str) -> Label:
    label: Label = nh.unset
    """natural
    Set <:label> to the kind of the customer's <text>.
    """
    return label


async def main(source: Path, target: Path) -> None:
    with source.open(newline="", encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    address = f"sqlite:///{target.with_suffix('.db')}"
    with nh.journal.open(address) as store:
        async with nh.run(MODEL, journal=store, run_id=source.stem):  # no answer is paid for twice
            labels = await parallel.map(classify, texts, max_concurrent=16, progress=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
