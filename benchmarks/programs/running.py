"""Running a version of a program on an input."""

import nighthawk_async as nh

from .chat import Chat
from .program import Ended, Input, Program, Version

__all__ = ["run_version"]


async def run_version(program: Program, given: Input, version: Version) -> Ended:
    """Run a version in the current run.

    Args:
        program: The program.
        given: The input.
        version: The version.

    Raises:
        Exception: Any error but the one that the input expects.
    """
    arguments = given.arguments()
    held = program.held(arguments)
    chat = Chat.of_run()
    steps_before = nh.get_usage_meter().steps
    result, expected_error = None, None
    try:
        if version == "natural":
            result = await program.natural(**arguments)
        else:
            result = await program.by_hand(chat, **arguments)
    except Exception as error:
        if given.raises is None or not isinstance(error, given.raises):
            raise
        expected_error = error
    return Ended(
        arguments=arguments,
        before=given.arguments(),
        held=held,
        expected=given.expected,
        result=result,
        error=expected_error,
        blocks=nh.get_usage_meter().steps - steps_before if version == "natural" else chat.calls,
        version=version,
    )
