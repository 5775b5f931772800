"""Which of two wordings is right more often? Both are tried on the same cases."""

import anyio

import nighthawk_async as nh
from nighthawk_async.evals import Case, evaluate

MODEL = "openai-responses:gpt-5.4-nano"
CASES = [
    Case("lamp", inputs={"mail": "The lamp is broken!"}, expected=True),
    Case("thanks", inputs={"mail": "Thanks, I love it."}, expected=False),
    Case("late", inputs={"mail": "Where is my order? I need it today."}, expected=True),
]


@nh.natural_function
async def short(mail: str) -> bool:
    urgent: bool = nh.unset
    """natural
    Set <:urgent> to whether <mail> is urgent.
    """
    return urgent


@nh.natural_function
async def exact(mail: str) -> bool:
    urgent: bool = nh.unset
    """natural
    Set <:urgent> to whether the customer who wrote <mail> waits for something that we have to do.
    """
    return urgent


async def main() -> None:
    reports = [await evaluate(each, CASES, model=MODEL, trials=5) for each in (short, exact)]
    print(reports[1].compare(reports[0], any_subject=True))


if __name__ == "__main__":
    anyio.run(main)
