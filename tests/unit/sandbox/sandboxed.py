"""What the tests of sandboxes share: a model that writes given code, and its answers."""

import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

KINDS = [
    "monty",
    pytest.param(
        "process",
        marks=pytest.mark.skipif(
            sys.platform != "linux" or shutil.which("bwrap") is None, reason="Bubblewrap (bwrap) is not here"
        ),
    ),
]
"""Both kinds of sandboxes."""

Call = str | tuple[str, dict[str, Any]]


class Written:
    """A model that writes pieces of code, one in each response, and then ends the block.

    Args:
        codes: The codes: cells, or the names and arguments of other tools.
        outcome: The arguments of the outcome.
    """

    def __init__(self, *codes: Call, **outcome: Any) -> None:
        self._codes = codes
        self._outcome = {"kind": "pass", **outcome}
        self._texts: list[str] = []
        self.prompts: list[str] = []

    def model(self) -> ScriptedModel:
        """The model."""
        return ScriptedModel(self._respond)

    def _respond(self, request: nh.models.ModelRequest) -> Any:
        turn = sum(isinstance(each, nh.models.AssistantMessage) for each in request.messages)
        if turn == 0:
            self.prompts.append(request.system_prompt)
        else:
            content: Any = request.messages[-1].results[0].content[0]  # type: ignore[union-attr]
            self._texts.append(getattr(content, "text", content))
        if turn >= len(self._codes):
            return model_response(tool_call("nh_outcome", **self._outcome))
        code = self._codes[turn]
        if isinstance(code, str):
            return model_response(tool_call("nh_exec", statements=code))
        return model_response(tool_call(code[0], **code[1]))

    def run(self, sandbox: nh.Sandbox, **options: Any) -> Any:
        """The run whose model it is."""
        configuration = nh.StepExecutorConfiguration(max_turns=100)
        executor = nh.AgentStepExecutor.from_model(model=self.model(), configuration=configuration)
        return nh.run(executor, code=sandbox, **options)

    def answer(self, position: int) -> dict[str, Any]:
        """An answer: its value and its error. A lone text comes as it is, without an envelope."""
        text = self._texts[position]
        found: dict[str, Any] = json.loads(text) if text[:1] == "{" else {"value": text, "error": None}
        return found

    def said(self, position: int) -> object:
        """The value of an answer, or its message, if it is an error."""
        answer = self.answer(position)
        return answer["value"] if answer["error"] is None else answer["error"]["message"]


async def answers(
    sandbox: nh.Sandbox, program: Callable[[], Awaitable[Any]], codes: Sequence[Call], **options: Any
) -> list[object]:
    """The answers to codes in one step, in order."""
    written = Written(*codes)
    async with written.run(sandbox, **options):
        await program()
    return [written.said(position) for position in range(len(codes))]
