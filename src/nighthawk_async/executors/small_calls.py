"""Calls of functions by a small model: one question, held to a JSON Schema, before those for the values.

The schema has the functions that the block names and their parameters, so an answer is nothing but calls of
them. The results are shown in the questions that follow.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from ..agent import named_tools
from ..agent.outcome_codec import parse_json_object
from ..agent.prompt import StepPrompt
from ..agent.refusals import GuardedCalls, Refusals, RepeatedCalls
from ..agent.task import Conversation
from ..agent.text_calls import calls_schema, read_list_of_calls, signature_of
from ..agent.toolbox import ResultRoom, Toolbox
from ..configuration import StepExecutorConfiguration
from ..errors import ExecutionError
from ..kernel.environment import Environment
from ..kernel.step import Step
from ..kernel.tool_calls import ToolResultRenderingPolicy
from ..tracing import Span
from ..types.messages import ToolCall, ToolDefinition, ToolResult, UserContent

_CALLS = "calls"
_WHICH = "Which functions are called, with which arguments?"


class SmallCalls(Struct, frozen=True, eq=False):
    """The functions that the block of one step names, for a small model.

    Args:
        tools: The functions.
        most: The greatest number of calls.
        begin: Begins a tool call, in order; returns an awaitable of its result.
    """

    tools: Sequence[ToolDefinition]
    most: int
    begin: Callable[[ToolCall], Callable[[], Awaitable[ToolResult]]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the field with the calls."""
        return {_CALLS: calls_schema(self.tools, at_least=0, at_most=self.most)}

    @property
    def question(self) -> str:
        """The question, which follows the variables."""
        listed = "\n".join(map(signature_of, self.tools))
        return f"\n\nFunctions:\n{listed}\n\n{_WHICH}"

    async def read(self, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the names and arguments of the calls in an answer.

        Args:
            answer: The answer.

        Raises:
            ExecutionError: They have another form.
        """
        if set(answer) != {_CALLS}:
            raise ExecutionError(f"the answer has the field '{_CALLS}' alone").caused_by("call_form")
        return read_list_of_calls(answer[_CALLS], at_most=self.most)

    async def results(self, calls: Sequence[tuple[str, str]]) -> str:
        """Make calls, and return their results for the questions that follow.

        Args:
            calls: Their names and arguments.
        """
        made = [
            ToolCall(id=f"text_{at}", name=name, arguments=arguments)
            for at, (name, arguments) in enumerate(calls)
        ]
        begun = [self.begin(call) for call in made]
        lines: list[str] = []
        for call, result in zip(made, begun, strict=True):
            lines += (f"{call.name}: {_shown(each)}" for each in (await result()).content)
        return "\n".join(lines)


def calls_of_step(
    environment: Environment,
    step: Step,
    configuration: StepExecutorConfiguration,
    policy: ToolResultRenderingPolicy,
    refusals: Refusals,
    span: Span | None,
) -> SmallCalls:
    """Return the functions that the block of a step names.

    Args:
        environment: The environment of the step.
        step: The step.
        configuration: The configuration of its executor.
        policy: The form of results.
        refusals: Phrases the failures of calls for the model.
        span: The span of the agent; None without tracing.

    Raises:
        ConfigurationError: A function cannot be a tool.
    """
    guard = configuration.loop_guard
    toolbox = Toolbox(
        actor=step.actor,
        environment=environment,
        provided=(),
        functions=named_tools.tools_of(step.context, {}, is_in_text=True),
        room=ResultRoom(policy, Conversation()),
        shows_secrets=configuration.show_secrets,
        max_argument_bytes=configuration.max_tool_argument_bytes,
        guarded=guard and GuardedCalls(environment, RepeatedCalls(guard)),
        refusals=refusals,
        is_strict=configuration.resolved_answers == "strict",
        agent=span,
    )

    def begin(call: ToolCall) -> Callable[[], Awaitable[ToolResult]]:
        result = toolbox.begin(call)

        async def finish() -> ToolResult:
            with step.actor.progress.in_flight(call):
                return await result()

        return finish

    tools = toolbox.definitions(are_strict=False)
    return SmallCalls(tools, min(len(tools), configuration.max_tool_calls), begin)


def with_results(prompt: StepPrompt, results: str) -> StepPrompt:
    """Return a prompt that shows the results of calls.

    Args:
        prompt: The prompt.
        results: The results; empty for none.
    """
    return replace(prompt, user_fragments=(*prompt.user_fragments, results)) if results else prompt


def _shown(item: UserContent) -> str:
    """A result as a small model reads it: the value alone, on one line."""
    if not isinstance(item, str):
        return "a medium"
    try:
        fields = parse_json_object(item)
    except ExecutionError:
        return json.dumps(item, ensure_ascii=False) if "\n" in item else item
    if set(fields) != {"value", "error"}:
        return item
    error: object = fields["error"]
    return json.dumps(fields["value"] if error is None else {"error": error}, ensure_ascii=False)
