"""Label the rows of a large CSV file on the workers of a cluster, with Ray."""

# python classify.py reviews.csv labels.csv
import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anyio

import nighthawk_async as nh
from nighthawk_async import parallel

MODEL = "openai-responses:gpt-5.4-nano"
WORKERS = int(os.environ.get("WORKERS", "4"))
Label = Literal["praise", "complaint", "question"]


@nh.natural_function
async def classify(text: str) -> Label:
    label: Label = nh.unset
    """natural
    Set <:label> to the kind of the customer's <text>.
    """
    return label


async def label_row(row: tuple[str, str]) -> tuple[str, str]:
    number, text = row
    return number, await classify(text)


def rows_of(source: Path) -> Iterator[tuple[str, str]]:
    with source.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row["number"], row["text"]


async def main(source: Path, target: Path) -> None:
    # The workers wait for the model most of the time: each makes many calls at once, on part of a processor.
    workers = nh.distributed.RayWorkers(WORKERS, num_cpus=0.25, max_concurrent_per_worker=32)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "label"])
        async with (
            nh.run(MODEL),
            workers,
            parallel.stream(label_row, rows_of(source), on=workers, progress=True) as labels,
        ):
            async for labelled in labels:  # in the order in which they are ready
                writer.writerow(labelled)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
