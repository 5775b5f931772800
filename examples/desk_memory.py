"""Answer mails with what earlier ones have told: the memory outlives the program."""

# python desk_memory.py memory.db "Ann" "Please mail me: how long does a refund take?"
import sys

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-mini"


@nh.natural_function
async def answer(customer: str, mail: str, memory: nh.Memory) -> str:
    reply: str = nh.unset
    """natural
    Recall from <memory> what it knows of <customer> and of what the <mail> asks. Store in it what is new
    about the customer, with a key like "ann/contact". Set <:reply> to an answer to the mail in two sentences.
    """
    return reply


async def main(database: str, customer: str, mail: str) -> None:
    with nh.memory.open(database, namespace="desk") as memory:
        await memory.store("policy/refunds", "A refund takes three days.", id="policy-1")  # stored once
        async with nh.run(MODEL):
            print(await answer(customer, mail, memory))
        for record in await memory.recall(customer, k=3):
            print(f"{record.key}: {record.text}")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
