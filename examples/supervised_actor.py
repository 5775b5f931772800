"""An actor with natural methods, which is restarted when a message fails."""

import anyio

import nighthawk_async as nh
from nighthawk_async import actors

MODEL = "openai-responses:gpt-5.4-nano"


class Desk(actors.Actor):
    def __init__(self, name: str) -> None:
        self.name = name
        self.replies: list[str] = []

    @nh.natural_function
    async def answer(self, question: str) -> str:
        reply: str = nh.unset
        """natural
        Set <:reply> to a short answer to <question>.
        """
        self.replies.append(reply)
        return reply


async def main() -> None:
    async with nh.run(MODEL), actors.Supervisor(max_restarts=3, window_seconds=60) as supervisor:
        desk = supervisor.start_actor("front", Desk, "front")
        for question in ("When do you open?", "Where are you?"):
            try:
                print(await desk.ask(Desk.answer, question))
            except nh.errors.ModelError as error:
                print("no answer:", error)
        print([event.kind for event in supervisor.events])


if __name__ == "__main__":
    anyio.run(main)
