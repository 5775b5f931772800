"""Netflux: an agent function with code functions as its tools, each in a thread of its own, over Responses.

Netflux makes one client for each agent that is started, and keeps what every agent did for as long as its
runtime lives. It asks for responses in one piece, and checks that the provider repeats what it was asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import openai
from netflux import AgentFunction, CodeFunction, FunctionArg, RunContext, Runtime
from netflux.providers import ModelNames, Provider

from . import harness
from .two_turns import SENT_AT, call, two_turns

PROMPTS = {
    "assign": "Set the variable result to forty-two.",
    "one-tool": "Wait once.",
    "eight-tools": "Wait eight times at once.",
    "tool-start": "Take a note.",
}

REPEATED = {
    "model": ModelNames[Provider.OpenAI],
    "truncation": "disabled",
    "reasoning": {"mode": "standard", "effort": "max", "context": "all_turns"},
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
}
"""What netflux wants repeated."""

SCRIPTS = {
    kind: {**script, "response_fields": REPEATED}
    for kind, script in two_turns(
        assign=call("assign", name="result", value=harness.EXPECTED),
        wait=call("wait"),
        note=call("note", sent_at=SENT_AT),
    ).items()
}


def wait(ctx: RunContext) -> str:
    """What the tool that takes a while does."""
    return harness.tool_body_in_thread()


def note(ctx: RunContext, *, sent_at: str) -> str:
    """What the tool that notes its start does."""
    return harness.tool_started(sent_at)


def assign(ctx: RunContext, *, name: str, value: int) -> str:
    """What the tool that sets a variable does: the variables are those of the agent that called it."""
    if (name, value) != ("result", harness.EXPECTED):
        raise ValueError(f"the model sets {name} to {value}")
    return "set"


TOOLS = (
    CodeFunction(
        name="assign",
        desc="Set a variable.",
        args=[FunctionArg("name", str, "The variable."), FunctionArg("value", int, "Its value.")],
        callable=assign,
    ),
    CodeFunction(name="wait", desc="Wait a moment.", args=[], callable=wait),
    CodeFunction(
        name="note",
        desc="Take a note of the time.",
        args=[FunctionArg("sent_at", str, "The time.")],
        callable=note,
    ),
)


@contextmanager
def open_steps(base_url: str, kind: str) -> Iterator[Callable[[], None]]:
    """One runtime for all steps."""
    agent = AgentFunction(
        name="step",
        desc="Does one step.",
        args=[],
        system_prompt="Do what you are told with the tools that you have.",
        user_prompt_template=PROMPTS[kind],
        uses=TOOLS,
        default_model=Provider.OpenAI,
    )

    def make_client() -> openai.OpenAI:
        return openai.OpenAI(base_url=base_url, api_key="none", max_retries=0)

    context = Runtime([agent], client_factories={Provider.OpenAI: make_client}).get_ctx()

    def step() -> None:
        node = context.invoke(agent, {})
        if node.result() != harness.TOOL_RESULT:
            raise ValueError(f"the agent says {node.result()!r}")
        if any(child.exception is not None for child in node.children):
            raise ValueError("a tool failed")

    yield step


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
