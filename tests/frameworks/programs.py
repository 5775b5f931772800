"""What the programs of these tests have in common: a natural function, async and not, and its model."""

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response


def count_asterisks(call: StepCall) -> StepResponse:
    return pass_response(count=str(call.step_locals["review"]).count("*"))


executor = CallbackExecutor(count_asterisks)


@nh.natural_function
async def stars(review: str) -> int:
    count: int = nh.unset
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


@nh.natural_function
def stars_sync(review: str) -> int:
    count: int = nh.unset
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count
