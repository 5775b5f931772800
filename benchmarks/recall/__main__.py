"""`python -m benchmarks.recall`: how well, and how fast, a memory recalls.

python -m benchmarks.recall                        recall@5 by words
python -m benchmarks.recall --model FOLDER         by meaning and by both, too; the folder of all-MiniLM-L6-v2
python -m benchmarks.recall --records 100000       the time of storing and recalling among so many records

The questions stand in `questions.json`, with the record that answers each. They were made for this benchmark:
two for each of 40 records, one with words of the record, and one that says it in other words.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh

_QUESTIONS = Path(__file__).parent / "questions.json"
_MODES: tuple[nh.memory.RecallMode, ...] = ("lexical", "semantic", "hybrid")


async def measure_quality(folder: Path, model: Path | None) -> None:
    """Print recall@5 and recall@1 of each mode, over all questions and over both halves."""
    embed: Any = None
    if model is not None:
        from .minilm import MiniLm  # here: it needs the packages of an environment of its own

        embed = MiniLm(model).embed
    data = json.loads(await anyio.Path(_QUESTIONS).read_text())
    with nh.memory.open(
        folder / "questions.db", embed=embed, embed_hint=embed and "all-minilm-l6-v2"
    ) as memory:
        for key, text in data["records"].items():
            await memory.store(key, text)
        print("mode      recall@5  same words  other words  recall@1")
        for mode in _MODES if embed is not None else _MODES[:1]:
            ranks: list[tuple[bool, int]] = []
            for each in data["questions"]:
                found = [record.key for record in await memory.recall(each["question"], k=5, mode=mode)]
                rank = found.index(each["key"]) if each["key"] in found else 5
                ranks.append((each["is_paraphrase"], rank))
            same = [rank < 5 for is_paraphrase, rank in ranks if not is_paraphrase]
            other = [rank < 5 for is_paraphrase, rank in ranks if is_paraphrase]
            first = [rank == 0 for _, rank in ranks]
            shares = [statistics.fmean(part) for part in ([*same, *other], same, other, first)]
            print(
                f"{mode:8}  {shares[0]:8.2f}  {shares[1]:10.2f}  {shares[2]:11.2f}  {shares[3]:8.2f}",
                flush=True,
            )


async def measure_times(folder: Path, count: int, dimensions: int) -> None:
    """Print the times of storing, and of recalling by words and by vectors, among many records."""
    chance = random.Random(7)
    words = [f"word{number}" for number in range(20_000)]
    weights = [1 / number for number in range(1, len(words) + 1)]

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[chance.gauss(0, 1) for _ in range(dimensions)] for _ in texts]

    with nh.memory.open(folder / "times.db", embed=embed if dimensions else None) as memory:
        begun = time.perf_counter()
        for number in range(count):
            await memory.store(f"key {number}", " ".join(chance.choices(words, weights, k=25)))
        seconds = time.perf_counter() - begun
        print(
            f"store: {seconds:.0f} s for {count:,} records, {seconds / count * 1_000:.2f} ms each", flush=True
        )
        rare, common = ["word900 word5000", "word12345", "key 777"], ["word1 word2 word3", "word0 word4"]
        for name, queries in (("rare words", rare), ("frequent words", common)):
            times = [await _seconds_of(memory, query, "lexical") for query in queries * 3]
            print(f"recall, {name}: {statistics.median(times) * 1_000:.0f} ms", flush=True)
        if dimensions:
            first = await _seconds_of(memory, "word900", "semantic")
            print(f"the first recall by meaning, with all vectors to compute: {first:.0f} s", flush=True)
            times = [await _seconds_of(memory, query, "semantic") for query in rare]
            print(f"recall by meaning, {dimensions} dimensions: {statistics.median(times) * 1_000:.0f} ms")
    size = (folder / "times.db").stat().st_size
    print(f"the file: {size / 1e6:.0f} MB")


async def _seconds_of(memory: nh.Memory, query: str, mode: nh.memory.RecallMode) -> float:
    begun = time.perf_counter()
    await memory.recall(query, mode=mode)
    return time.perf_counter() - begun


def main() -> None:
    """Measure what the arguments choose."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall")
    parser.add_argument("--model", type=Path, help="the folder of all-MiniLM-L6-v2, for recall by meaning")
    parser.add_argument("--records", type=int, default=0, help="measure times among so many records")
    parser.add_argument(
        "--dimensions", type=int, default=0, help="numbers of random vectors, for times by meaning"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.records:
            anyio.run(measure_times, Path(folder), options.records, options.dimensions)
        else:
            anyio.run(measure_quality, Path(folder), options.model)


if __name__ == "__main__":
    main()
