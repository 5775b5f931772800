"""An agent that applies a patch, also when it does not fit."""

# python apply_patch.py /repo change.diff
import sys
from pathlib import Path

import anyio

import nighthawk_async as nh
from nighthawk_async import library

MODEL = "openai-responses:gpt-5.4-nano"
PatchError = library.PatchError


@nh.natural_function
async def apply_patch(workspace: library.Workspace, patch: str) -> list[str]:
    changed: list[str] = nh.unset
    """natural
    Apply <patch> to <workspace>, and set <:changed> to the paths that its method returns. If the patch does
    not fit, read the files, and write it anew so that it makes the same change. Raise a <PatchError> if what
    it changes is not there.
    """
    return changed


async def main(folder: Path, patch: Path) -> None:
    workspace = library.Workspace(folder, writable=True)
    text = await anyio.Path(patch).read_text(encoding="utf-8")
    async with nh.run(MODEL):
        for path in await apply_patch(workspace, text):
            print("changed", path)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
