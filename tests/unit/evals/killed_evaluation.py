"""An evaluation that prints the cases it calls the subject for, and may kill itself in the middle of one.

Arguments: the path of the report, and the number of the call that kills the process; none for no kill.
"""

import os
import signal
import sys

import anyio
from anyio.lowlevel import checkpoint

from nighthawk_async.evals import Case, evaluate

PATH, MOMENT = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
calls = 0


async def halve(number: int) -> float:
    """Return half of a number, with some work in between."""
    global calls
    calls += 1
    print(number, flush=True)
    if calls == MOMENT:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(number):
        await checkpoint()
    return number / 2


async def main() -> None:
    """Evaluate it; one case is wrong."""
    given = [Case(f"{each}", inputs={"number": each}, expected=each // 2) for each in range(4)]
    await evaluate(halve, given, trials=3, max_concurrent=3, seed=3, path=PATH)


anyio.run(main, backend="trio")
