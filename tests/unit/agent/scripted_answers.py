"""Answers of scripted models over the transports of outcomes, for tests of what is sent and read."""

import json
from typing import Any

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

OFFICIAL = "openai-responses:gpt-5.4-nano"
MODELS = [OFFICIAL, "openai-chat:gpt-4.1", "anthropic:claude-sonnet-4-5", "google:gemini-3", "vllm:any"]


def scripted(name: str, *answers: Any, **configuration: Any) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel(answers, name=name)
    settings = nh.StepExecutorConfiguration(max_corrective_turns=0, **configuration)
    return model, nh.AgentStepExecutor.from_model(model=model, configuration=settings)


def schema_in(request: nh.models.ModelRequest) -> dict[str, Any]:
    if request.response_format is not None:
        return dict(request.response_format.schema)
    return dict(request.tools[-1].parameters)


def answer(transport: str, **fields: Any) -> Any:
    if transport == "tool":
        return tool_call("nh_outcome", **fields)
    return json.dumps({"result": fields})


def ending(transport: str, *calls: Any, **fields: Any) -> Any:
    end = answer(transport, **fields)
    return model_response(*calls, end) if transport == "tool" else model_response(text=end)
