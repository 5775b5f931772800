"""The perfect reader: a model that answers each step as a block's author wrote it down."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import nighthawk_async as nh
from nighthawk_async.catalog.models import find_model_facts
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

from .block import Answer

__all__ = ["MODEL", "perfect_reader", "reading", "scripted"]

MODEL = "openai-chat:gpt-5.4-nano"
"""The model whose wire and capabilities are measured."""


def perfect_reader(answers: Sequence[Answer], *, model: str = MODEL) -> ScriptedModel:
    """A model that gives these answers, one for each step.

    Args:
        answers: The answers.
        model: The model whose wire and capabilities are measured.
    """
    return scripted(reading(answers), model=model)


def scripted(
    answer: Callable[[nh.models.ModelRequest], ModelResponse], *, model: str = MODEL
) -> ScriptedModel:
    """A model of the measured kind that answers with the results of a function.

    Args:
        answer: Gives the response to a request.
        model: The model whose wire and capabilities are measured.
    """
    return ScriptedModel(answer, name=model, capabilities=find_model_facts(model).capabilities)


def reading(answers: Sequence[Answer]) -> Callable[[nh.models.ModelRequest], ModelResponse]:
    """A function that gives these answers, one for each step.

    Args:
        answers: The answers.
    """
    script = _responses(answers)
    next(script)
    return script.send


def _responses(answers: Sequence[Answer]) -> Generator[Any, nh.models.ModelRequest, None]:
    request: nh.models.ModelRequest = yield
    for answer in answers:
        if answer.first:
            request = yield model_response(*(_run(text, request) for text in answer.first))
        request = yield _response(answer, _properties_of_outcome(request), request)
    raise AssertionError(f"a request more than there are answers: {request.messages[-1]}")


def _has_cell(request: nh.models.ModelRequest) -> bool:
    return any(tool.name == "nh_exec" for tool in request.tools)


def _run(expression: str, request: nh.models.ModelRequest) -> nh.models.ToolCall:
    """A call that evaluates an expression, by the tool on offer."""
    if _has_cell(request):
        return tool_call("nh_exec", statements=expression)
    return tool_call("nh_eval", expression=expression)


def _response(
    answer: Answer, properties: Mapping[str, Any], request: nh.models.ModelRequest
) -> ModelResponse:
    """The response that ends a step: data where the outcome takes it, and Python otherwise."""
    assignments = dict(answer.assignments)
    takes_data = properties.get("bindings", {}).get("properties", {})
    data = {name: value for name, value in answer.bindings.items() if name in takes_data}
    assignments |= {name: repr(value) for name, value in answer.bindings.items() if name not in data}
    lines = [*answer.evaluations, *(f"{path} = {text}" for path, text in assignments.items())]
    expressions = properties.get("expressions", {}).get("properties", {})
    if not answer.evaluations and assignments and assignments.keys() <= expressions.keys():
        lines = []
    calls = [tool_call("nh_exec", statements="\n".join(lines))] if lines else []
    if lines and not _has_cell(request):  # the tools of the specification are executed in any case
        calls = [tool_call("nh_eval", expression=text) for text in answer.evaluations]
        calls += [
            tool_call("nh_assign", target_path=path, expression=text) for path, text in assignments.items()
        ]
    outcome: dict[str, Any] = {"kind": answer.kind}
    if data:
        outcome["bindings"] = data
    if assignments and not lines:
        outcome["expressions"] = assignments
    if answer.has_value and "return_value" in properties:
        outcome["return_value"] = answer.value
    elif answer.has_value:
        outcome["return_expression"] = repr(answer.value)
    elif answer.expression is not None:
        outcome["return_expression"] = answer.expression
    if answer.raise_message is not None:
        outcome["raise_message"] = answer.raise_message
    if answer.raise_error_type is not None:
        outcome["raise_error_type"] = answer.raise_error_type
    return model_response(*calls, tool_call("nh_outcome", **outcome))


def _properties_of_outcome(request: nh.models.ModelRequest) -> Mapping[str, Any]:
    """The arguments that the outcome takes in this step."""
    for tool in request.tools:
        if tool.name == "nh_outcome":
            return tool.parameters.get("properties", {})
    raise AssertionError("the reader ends a step by nh_outcome, and it is not on offer")
