"""A researcher that answers questions on the files of a folder, with sources."""

# python research.py /repo "Where are retries counted?"
import sys
from pathlib import Path

import anyio
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async import library

MODEL = "openai-responses:gpt-5.4-nano"


class Finding(BaseModel):
    answer: str
    sources: list[str]


@nh.natural_function
async def research(workspace: library.Workspace, question: str) -> Finding:
    finding: Finding = nh.unset
    """natural
    Answer <question> from the files of <workspace>: find and search, then read what matters. Set <:finding>
    to the answer, with the places that prove it, such as `src/shop.py:12`.
    """
    return finding


async def main(folder: Path, question: str) -> None:
    async with nh.run(MODEL):
        finding = await research(library.Workspace(folder), question)
    print(finding.answer, *finding.sources, sep="\n")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
