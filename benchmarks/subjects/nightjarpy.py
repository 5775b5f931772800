"""Nightjar: plain functions with natural code, over Chat Completions.

Each block makes a client of its own and asks the provider first which models it has. Two settings are not its
defaults: responses come from the provider, and not from a cache on the disk; and one process may have any
number of effects, because those that it may have by default are over after fifty steps.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import harness
from .two_turns import SENT_AT, call, two_turns

# Read when the package is imported, which opens a cache in the user's home otherwise.
os.environ["NJ_CACHEDIR"] = str(Path(sys.prefix, "nightjar-cache"))

import nightjarpy as nj
from nightjarpy.configs import DEFAULT_CONFIG

CONFIG = (
    DEFAULT_CONFIG.disable_cache()
    .with_llm_updates(model="openai/benchmark")
    .with_interpreter_updates(max_effects=10**9)
)

SCRIPTS = two_turns(
    assign=call("exec", code=f"result = {harness.EXPECTED}"),
    wait=call("eval", expr="wait()"),
    note=call("eval", expr=f"note('{SENT_AT}')"),
    end={"calls": [call("done")]},
)
# It has the model call one tool at a time.
del SCRIPTS["eight-tools"]


def wait() -> str:
    """Wait a moment."""
    return harness.tool_body_in_thread()


def note(sent_at: str) -> str:
    """Take a note of the time."""
    return harness.tool_started(sent_at)


@nj.fn(config=CONFIG)
def assign():
    """Have the model set a variable."""
    """natural
    Set <:result> to forty-two.
    """
    return result  # noqa: F821


@nj.fn(config=CONFIG)
def wait_once():
    """Have the model call one tool."""
    """natural
    Call <wait> once.
    """


@nj.fn(config=CONFIG)
def take_note():
    """Have the model call a tool and go on."""
    """natural
    Call <note> with the time.
    """


FUNCTIONS: dict[str, Callable[[], int | None]] = {
    "assign": assign,
    "one-tool": wait_once,
    "tool-start": take_note,
}


@contextmanager
def open_steps(base_url: str, kind: str) -> Iterator[Callable[[], None]]:
    """Nothing is shared; where the provider is, the environment says."""
    os.environ["OPENAI_BASE_URL"] = base_url
    os.environ["OPENAI_API_KEY"] = "none"

    def step() -> None:
        value = FUNCTIONS[kind]()
        if kind == "assign" and value != harness.EXPECTED:
            raise ValueError(f"the function gave {value}")

    yield step


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
