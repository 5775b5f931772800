"""Write a file of each kind: `python -m tests.formats.write tests/formats/0.2.0`.

Run it once for each release, with that release. Stores are compressed, since they are mostly empty pages.
"""

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.evals import Case, equals, evaluate
from nighthawk_async.testing import cassette

from .program import MAIL, SENT, handle, label, model_that_labels


async def write(folder: Path) -> None:
    """Write a file of each kind."""
    async with cassette(folder / "cassette.yaml"), nh.run(model_that_labels(times=1)):
        await label(MAIL)
        nh.transcript().save(folder / "transcript.json")
    with observe.recording(to=folder / "recording.jsonl"):
        async with nh.run(model_that_labels(times=1), run_id="desk"):
            await label(MAIL)
    cases = [Case("lamp", inputs={"mail": MAIL}, expected="order")]
    report = await evaluate(label, cases, scorers=[equals()], model=model_that_labels(times=1))
    report.save(folder / "report.jsonl")
    with nh.journal.open(folder / "journal.db") as store:
        try:
            async with nh.run(model_that_labels(times=1), journal=store, run_id="mail-17"):
                await handle(MAIL, is_cut=True)
        except SystemError:
            SENT.clear()
    with nh.memory.open(folder / "memory.db", namespace="support") as memory:
        await memory.store("refunds", "A refund takes three days.", tags=["policy"])


def main(folder: Path) -> None:
    """Write the files of this version; the mark of a store belongs to a machine, and is left out."""
    with TemporaryDirectory() as temporary:
        anyio.run(write, Path(temporary))
        folder.mkdir(parents=True)
        for each in sorted(Path(temporary).iterdir()):
            content = each.read_bytes()
            if each.suffix == ".db":
                (folder / f"{each.name}.gz").write_bytes(gzip.compress(content, mtime=0))
            elif not each.name.endswith("-mark"):
                (folder / each.name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
