"""Rename the photos of a folder by what they show."""

# python rename_photos.py *.jpg
import sys
from pathlib import Path
from typing import Annotated

import anyio
from pydantic import StringConstraints

import nighthawk_async as nh
from nighthawk_async import parallel

MODEL = "openai-responses:gpt-5.4-nano"
Name = Annotated[str, StringConstraints(pattern="^[a-z0-9-]{3,40}$")]


@nh.natural_function
async def describe(photo: nh.BinaryContent) -> Name:
    name: Name = nh.unset
    """natural
    Set <:name> to what <photo> shows, in two to five English words joined by hyphens.
    """
    return name


async def main(photos: list[Path]) -> None:
    contents = [nh.BinaryContent.from_path(photo) for photo in photos]
    async with nh.run(MODEL):
        names = await parallel.map(describe, contents, max_concurrent=4, progress=True)
    for number, (photo, name) in enumerate(zip(photos, names, strict=True), start=1):
        target = photo.rename(photo.with_stem(f"{name}-{number}"))  # the number keeps names apart
        print(f"{photo.name} -> {target.name}")


if __name__ == "__main__":
    anyio.run(main, [Path(name) for name in sys.argv[1:]])
