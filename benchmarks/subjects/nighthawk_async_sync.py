"""This project in a script: a plain natural function, called again and again, each in two round trips."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import nighthawk_async as nh

from . import harness
from .natural_steps import scripts_of

SCRIPTS = {"assign": scripts_of(in_one_trip=False)["assign"]}


@nh.natural_function
def assign() -> int:
    """Let the model set a variable."""
    """natural
    Set <:result> to the answer.
    """
    return result  # noqa: F821


@contextmanager
def open_steps(base_url: str, kind: str) -> Iterator[Callable[[], None]]:
    """One run for all steps of the script."""

    def step() -> None:
        if assign() != harness.EXPECTED:
            raise ValueError("the variable got another value")

    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:gpt-5.4-nano", model_settings={"base_url": base_url, "api_key": "none"}
    )
    with nh.run(nh.AgentStepExecutor.from_configuration(configuration=configuration)):
        yield step


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
