"""Follows one step of a program on its way through the library; run as a program, it prints the files."""

import json
import sys
from pathlib import Path
from types import FrameType

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

PACKAGE = Path(nh.__file__).parent
CALLS = (
    tool_call("nh_assign", target_path="count", expression="len(review)"),
    tool_call("nh_outcome", kind="pass"),
)


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the stars of <review>.
    """
    return count


async def follow_third_call() -> list[str]:
    """The files that the third call of a natural function enters, in the order of first entry."""
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in file.parents:
            entered[file.relative_to(PACKAGE).as_posix()] = None

    model = ScriptedModel([model_response(*CALLS) for _ in range(3)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await stars("a")
        await stars("ab")
        sys.setprofile(note)
        try:
            assert await stars("abcd") == 4
        finally:
            sys.setprofile(None)
    return [file for file in entered if not file.startswith("testing/")]


if __name__ == "__main__":
    print(json.dumps(anyio.run(follow_third_call, backend="trio")))
