"""An image as the argument of a natural function."""

# python image.py photo.jpg
import sys
from pathlib import Path

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


@nh.natural_function
async def describe(picture: nh.BinaryContent) -> str:
    caption: str = nh.unset
    """natural
    Set <:caption> to a caption of at most ten words for <picture>.
    """
    return caption


async def main(path: Path) -> None:
    picture = nh.BinaryContent.from_path(path)
    async with nh.run(MODEL):
        print(await describe(picture))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
