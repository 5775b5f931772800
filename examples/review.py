"""A reviewer that reads a change and runs the tests."""

# python review.py /repo
import sys
from pathlib import Path

import anyio
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async import library

MODEL = "openai-responses:gpt-5.4-nano"


class Remark(BaseModel):
    place: str
    text: str


@nh.natural_function
async def review(workspace: library.Workspace, change: str) -> list[Remark]:
    remarks: list[Remark] = nh.unset
    """natural
    Review <change>, which is in <workspace> already. Read the code around it, run its tests in the shell, and
    set <:remarks> to what its author should know, worst first. Change nothing.
    """
    return remarks


async def main(folder: Path) -> None:
    workspace = library.Workspace(folder, writable=True)  # tests write; its shell is confined
    async with nh.run(MODEL):
        change = await workspace.shell("git diff HEAD")
        for remark in await review(workspace, change.output):
            print(f"{remark.place}: {remark.text}")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
