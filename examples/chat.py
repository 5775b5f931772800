"""A chat that remembers what was said, also when it is started again."""

# python chat.py; an empty line ends it
from pathlib import Path

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"
HISTORY = Path("chat.json")


@nh.natural_function
async def reply_to(message: str) -> str:
    reply: str = nh.unset
    """natural
    Set <:reply> to a short answer to <message>, in the light of what was said before.
    """
    return reply


def what_was_said() -> nh.Transcript | None:
    """The memory of the chat."""
    return nh.Transcript.load(HISTORY) if HISTORY.exists() else None


async def main() -> None:
    past = what_was_said()
    async with nh.run(MODEL):
        while message := (await anyio.to_thread.run_sync(input, "you: ")).strip():
            with nh.scope(past=past):
                print("bot:", await reply_to(message))
            past = nh.transcript().trimmed(turns=40)
            past.save(HISTORY)


if __name__ == "__main__":
    anyio.run(main)
