"""What the specification tests share: steps whose model answers from a script."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

PASS = tool_call("nh_outcome", kind="pass")


def returning(expression: str) -> nh.models.ToolCall:
    """The call that returns the value of an expression."""
    return tool_call("nh_outcome", kind="return", return_expression=expression)


def evaluating(expression: str) -> nh.models.ToolCall:
    """A call of `nh_eval`."""
    return tool_call("nh_eval", expression=expression)


def assigning(target_path: str, expression: str) -> nh.models.ToolCall:
    """A call of `nh_assign`."""
    return tool_call("nh_assign", target_path=target_path, expression=expression)


def executing(statements: str) -> nh.models.ToolCall:
    """A call of `nh_exec`."""
    return tool_call("nh_exec", statements=statements)


class ScriptedSteps:
    """An executor whose model answers each request with the next turn, and what the model saw.

    Args:
        *turns: For each model request, the calls of the answer; the last one ends the last step.
        **configuration: Settings of the executor.
    """

    def __init__(
        self, *turns: tuple[nh.models.ToolCall, ...] | nh.models.ToolCall, **configuration: Any
    ) -> None:
        answers: list[ModelResponse] = [
            model_response(*(turn if isinstance(turn, tuple) else (turn,))) for turn in turns
        ]
        self.model = ScriptedModel(answers)
        self.executor = nh.AgentStepExecutor.from_model(
            model=self.model, configuration=nh.StepExecutorConfiguration(**configuration)
        )

    @property
    def results(self) -> list[nh.models.ToolResult]:
        """Every tool result that the model saw, in order."""
        return [
            result
            for message in self.model.requests[-1].messages
            if isinstance(message, nh.models.ToolResultsMessage)
            for result in message.results
        ]

    @property
    def envelopes(self) -> list[Mapping[str, Any]]:
        """The `{"value": …, "error": …}` envelopes of those results that are text."""
        return list(_decoded(self.results))

    @property
    def user_prompt(self) -> str:
        """The text of the first user prompt."""
        message = self.model.requests[0].messages[0]
        assert isinstance(message, nh.models.UserMessage)
        return "\n".join(item for item in message.content if isinstance(item, str))


def _decoded(results: list[nh.models.ToolResult]) -> Iterator[Mapping[str, Any]]:
    for result in results:
        (text,) = result.content
        assert isinstance(text, str)
        if text.startswith('{"value"'):
            try:
                yield json.loads(text)
            except json.JSONDecodeError:  # objects among the items are shown as calls of their classes
                yield {"value": text.partition('"value": ')[2].rpartition(', "error"')[0], "error": None}
        elif not text.startswith("{"):  # a text of several lines, or a result that is shown as text
            yield {"value": text, "error": None}


def section(prompt: str, name: str) -> str:
    """The text of one delimited section of a user prompt."""
    return prompt.partition(f"<<<NH:{name}>>>\n")[2].partition(f"\n<<<NH:END_{name}>>>")[0]
