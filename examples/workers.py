"""Call a function that computes in two worker processes: python workers.py *.txt."""

import sys
from collections import Counter
from pathlib import Path

import anyio

import nighthawk_async as nh
from nighthawk_async import parallel

MODEL = "openai-responses:gpt-5.4-nano"


@nh.natural_function
async def topic_of(words: list[str]) -> str:
    topic: str = nh.unset
    """natural
    Set <:topic> to what a text with these <words> is about, in two or three words.
    """
    return topic


def words_of(path: Path) -> list[str]:
    counts = Counter(path.read_text(encoding="utf-8").lower().split())  # this keeps a processor busy
    return [word for word, _ in counts.most_common(50)]


async def summarize(path: Path) -> str:
    return f"{path.name}: {await topic_of(words_of(path))}"


async def main(paths: list[Path]) -> None:
    async with nh.run(MODEL), nh.distributed.Processes(2) as workers:
        for line in await parallel.map(summarize, paths, on=workers, progress=True):
            print(line)


if __name__ == "__main__":
    anyio.run(main, [Path(name) for name in sys.argv[1:]])
