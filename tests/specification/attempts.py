"""What the tests of the resilience baseline share: a step whose attempts end as told."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

WRONG, RIGHT = pass_response(result="many"), pass_response(result=7)


@nh.natural_function
async def work(tool: object = None, result: int = 0) -> int:
    """natural
    Call <tool> and set <:result>, or raise ValueError.
    """
    return result


@nh.natural_function
def work_in_thread(result: int = 0) -> int:
    """natural
    Set <:result>.
    """
    return result


class Attempts:
    """Ends attempts as it is told, in order, the last way for ever, and notes when they begin.

    Args:
        answers: Responses, errors to raise, and async functions that are called and may give a response;
            otherwise the attempt succeeds.
    """

    def __init__(self, *answers: StepResponse | Exception | Callable[[], Awaitable[Any]]) -> None:
        self._answers = answers
        self.began_at: list[float] = []
        self.executor = CallbackExecutor(self._answer)

    async def _answer(self, call: StepCall) -> StepResponse:
        await checkpoint()
        answer: Any = self._answers[min(self.count, len(self._answers) - 1)]
        self.began_at.append(anyio.current_time())
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, StepResponse) else await answer() or RIGHT

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self.began_at)

    @property
    def pauses(self) -> list[float]:
        """The seconds between their beginnings."""
        return [round(later - earlier, 3) for earlier, later in pairwise(self.began_at)]
