"""Two steps in the background: one gets a hint while it runs, the other is cancelled."""

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


async def show_draft(headline: str) -> str:
    """Show a draft to the editor, and wait for the hint."""
    await nh.current_task().mailbox.send(headline)
    return "shown"


@nh.natural_function
async def write_headline(news: str) -> str:
    headline: str = nh.unset
    """natural
    Show a draft of a headline for <news> with <show_draft>, then set <:headline>.
    """
    return headline


async def main() -> None:
    async with nh.run(MODEL), nh.open_tasks() as tasks:
        first = tasks.start(write_headline, "A man bit a dog.")
        second = tasks.start(write_headline, "It rained.")
        print("draft:", await first.mailbox.receive())
        first.steer("At most three words.")
        second.cancel("nobody reads about rain")
        print("headline:", await first)
        await second.wait_ended()
        print("second:", second.status)


if __name__ == "__main__":
    anyio.run(main)
