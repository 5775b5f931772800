"""Natural functions and models for tests of telemetry."""

from collections.abc import Sequence

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

__all__ = [
    "INNER",
    "OUTCOME",
    "act",
    "act_now",
    "agent",
    "answer_of",
    "assign",
    "compute",
    "evaluate",
    "execute",
    "inner",
]

OUTCOME = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def act(question: str = "What?") -> str:
    answer: str = ""
    """natural
    Set <:answer> to the answer to <question>.
    """
    return answer


@nh.natural_function
def act_now(question: str = "What?") -> str:
    answer: str = ""
    """natural
    Set <:answer> to the answer to <question>.
    """
    return answer


@nh.natural_function
async def inner() -> None:
    """natural
    Do less.
    """


@nh.natural_function
def inner_now() -> None:
    """natural
    Do less.
    """


@nh.natural_function
async def compute() -> str:
    answer: str = ""
    """natural
    Set <:answer> with <inner>, <inner_now> and <explode>.
    """
    return answer


def explode() -> None:
    raise ValueError("secret reason")


def assign(expression: str = "'42'") -> nh.models.ToolCall:
    return tool_call("nh_assign", target_path="answer", expression=expression)


def evaluate(expression: str) -> nh.models.ToolCall:
    return tool_call("nh_eval", expression=expression)


def execute(statements: str) -> nh.models.ToolCall:
    return tool_call("nh_exec", statements=statements)


def answer_of(request: nh.models.ModelRequest, *calls: nh.models.ToolCall) -> ModelResponse:
    """Calls these tools in the first turn of an outer step, and ends every other one."""
    text = str(request.messages[0])
    is_inner = "Do less." in text
    is_first = len(request.messages) == 1 and not is_inner
    return model_response(*(calls if is_first else ()), *(() if is_first and calls else (OUTCOME,)))


def agent(
    *calls: nh.models.ToolCall, provided: Sequence[str] = ("nh_eval", "nh_assign", "nh_exec")
) -> nh.AgentStepExecutor:
    """Makes these calls in the first turn, and ends in the second one; a step inside ends at once."""
    model = ScriptedModel(lambda request: answer_of(request, *calls), name="openai-chat:some-model")
    configuration = nh.StepExecutorConfiguration(provided_tools=tuple(provided))
    return nh.AgentStepExecutor.from_model(model=model, configuration=configuration)


INNER = (
    "nighthawk.step",
    [("nighthawk.step_executor", [("invoke_agent inner", [("chat some-model", [])])])],
)
