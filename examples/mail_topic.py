"""Publish mails to a topic; each is answered in a durable run, those of one customer in their order."""

# python mail_topic.py mails.db "Where is my lamp?" "It came, thank you."
import sys
from dataclasses import dataclass

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


@dataclass
class Mail:
    customer: str
    text: str


@nh.natural_function
async def answer(mail: Mail) -> None:
    reply: str = nh.unset
    """natural
    Set <:reply> to an answer to <mail> in one sentence.
    """
    print(mail.text, "->", reply)


async def main(database: str, texts: list[str]) -> None:
    with nh.journal.open(database) as store:
        await store.subscribe("mails", answer, key="customer")
        for text in texts:
            await store.publish("mails", Mail("ann", text), id=text)  # an id is published once
        worker = nh.journal.Worker(store, [answer], run=lambda run: nh.run(MODEL, journal=store, run_id=run))
        await worker.serve()  # until somebody ends it


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2:])
