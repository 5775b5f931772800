"""Label the rows of a CSV file, eight at a time, with a line of progress."""

# python csv_progress.py in.csv out.csv
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
        rows = list(csv.DictReader(file))
    async with nh.run(MODEL):
        labels = await parallel.map(classify, [row["text"] for row in rows], max_concurrent=8, progress=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        for row, label in zip(rows, labels, strict=True):
            writer.writerow({"text": row["text"], "label": label})


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
