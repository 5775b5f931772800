"""Steps whose transcripts are looked at, and transcripts made by hand."""

import nighthawk_async as nh
from nighthawk_async.models import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call


def setting(label: str) -> ModelResponse:
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"label": label}))


def looking(expression: str, text: str = "") -> ModelResponse:
    return model_response(tool_call("nh_eval", expression=expression), text=text)


@nh.natural_function
async def triage(mail: str) -> str:
    label = ""
    """natural
    Set <:label> to the kind of <mail>.
    """
    return label


@nh.natural_function
def triage_synchronously(mail: str) -> str:
    label = ""
    """natural
    Set <:label> to the kind of <mail>.
    """
    return label


def prompt_of(message: Message) -> str:
    assert isinstance(message, UserMessage)
    return "\n".join(item for item in message.content if isinstance(item, str))


def roles_of(messages: tuple[Message, ...]) -> list[str]:
    letters = {UserMessage: "user", AssistantMessage: "model", ToolResultsMessage: "results"}
    return [letters[type(message)] for message in messages]


async def transcript_of(*answers: ModelResponse, name: str = "scripted:model") -> nh.Transcript:
    async with nh.run(ScriptedModel([*answers], name=name)):
        await triage("a broken lamp")
        return nh.transcript()


def turn(number: int, *, user: str = "") -> list[Message]:
    call = ToolCall(id=f"call {number}", name="look", arguments="{}")
    result = ToolResult(call_id=call.id, name="look", content=(f"result {number}",))
    messages: list[Message] = [UserMessage(content=(user,))] if user else []
    return [*messages, AssistantMessage(tool_calls=(call,)), ToolResultsMessage(results=(result,))]


def made_of(*messages: Message) -> nh.Transcript:
    return nh.Transcript(
        step_id="shop:1", model="scripted:model", system_prompt="Work.", messages=messages, outcome="pass"
    )


OPENING = UserMessage(content=("the program",))
