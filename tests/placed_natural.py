"""Natural functions that run on a placement of worker processes."""

import os

import nighthawk_async as nh
from nighthawk_async.testing import StepCall, StepResponse, pass_response

workers = nh.distributed.Processes(1)


def answer(call: StepCall) -> StepResponse:
    """Answer every step with the process that runs it."""
    return pass_response(**dict.fromkeys(call.binding_names, os.getpid()))


@nh.natural_function(on=workers)
async def process_of(number: int = 0, *, word: str = "a") -> int:
    """natural
    Note the process with <number> and <word> as <:process>.
    """
    return process


@nh.natural_function(on=workers)
async def process_of_inner() -> int:
    """natural
    Note <:process>.
    """
    assert await process_of() == process
    return process


@nh.natural_function(on=workers)
def process_in_thread(number: int) -> int:
    """natural
    Note the process with <number> as <:process>.
    """
    return process


@nh.natural_function(on=workers)
async def process_tool(number: int) -> int:
    """natural
    Note the process with <number> as <:process>.
    """
    return process


@nh.scope(max_depth=3)
@nh.natural_function(on=workers)
async def process_of_decorated(number: int) -> int:
    """natural
    Note the process with <number> as <:process>.
    """
    return process


class Negated(nh.Policy):
    """Negates what each function returns."""

    async def around_function(
        self, call: nh.policies.FunctionCall, proceed: nh.policies.FunctionProceed
    ) -> object:
        return -await proceed()


class Holder:
    """An object with a method that cannot cross."""

    @nh.natural_function(on=workers)
    async def process_of(self) -> int:
        """natural
        Note the process as <:process>.
        """
        return process
