"""Blocks in a loop: one block skips an item, ends the loop, raises, or sets a variable."""

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


class UnreadableError(Exception):
    """A mail that nobody can read."""


@nh.natural_function
async def subjects(mails: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for mail in mails:
        subject: str = nh.unset
        """natural
        Look at <mail>. If it is advertising, continue. If it says that the rest is an archive, break.
        If it cannot be read, raise an <UnreadableError>. Else set <:subject> to its subject in three words.
        """
        found[mail] = subject
    return found


async def main() -> None:
    mails = ["My lamp is broken.", "Buy now!", "Where is order 7?", "The rest is an archive.", "Thanks."]
    async with nh.run(MODEL):
        print(await subjects(mails))


if __name__ == "__main__":
    anyio.run(main)
