"""Print a text while the model writes it."""

# python stream_to_terminal.py "Why is the sky blue?"
import sys

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


@nh.natural_function
async def explain(question: str) -> str:
    text: str = nh.unset
    """natural
    Set <:text> to an answer to <question>, in three paragraphs.
    """
    return text


async def main(question: str) -> None:
    async with nh.run(MODEL):
        async for piece in nh.stream_text(explain, question):
            print(piece, end="", flush=True)
    print()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
