"""An answer that the sent schema allows is accepted in every form in which it can only mean itself."""

import json
from collections.abc import Callable
from typing import Any

import anyio
from hypothesis import assume, given, settings, strategies as st

import nighthawk_async as nh
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response

from .plain_types import types
from .test_answers import PassedError, answers, block

MODELS = ("scripted:model", "openai-responses:gpt-5.4-nano")


def inside(answer: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """The text of an answer whose fields were changed, wrapped or not."""
    if set(answer) == {"result"}:
        return json.dumps({"result": change(answer["result"])})
    return json.dumps(change(answer))


def renamed(fields: dict[str, Any]) -> dict[str, Any]:
    bindings = fields.get("bindings")
    if not bindings:
        return fields
    return fields | {"bindings": {f"<:{name}>": value for name, value in bindings.items()}}


def beside(fields: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in fields.items() if name != "bindings"}
    return (fields.get("bindings") or {}) | rest


def bindings_as_text(fields: dict[str, Any]) -> dict[str, Any]:
    bindings = fields.get("bindings")
    return fields if bindings is None else fields | {"bindings": json.dumps(bindings)}


def trailing_comma(answer: dict[str, Any]) -> str:
    return json.dumps(answer)[:-1] + ",\n}"


DISGUISES: dict[str, Callable[[dict[str, Any]], str]] = {
    "fence": lambda answer: f"```json\n{json.dumps(answer, indent=2)}\n```",
    "sentence": lambda answer: f"Here it is: {json.dumps(answer)} That is all.",
    "quotes": repr,
    "trailing comma": trailing_comma,
    "text": lambda answer: json.dumps(json.dumps(answer)),
    "kind": lambda answer: inside(answer, lambda each: each | {"kind": each["kind"].upper()}),
    "extra field": lambda answer: inside(answer, lambda each: each | {"reason": "because"}),
    "names": lambda answer: inside(answer, renamed),
    "beside": lambda answer: inside(answer, beside),
    "bindings": lambda answer: inside(answer, bindings_as_text),
}


async def committed(function: Any, respond: Callable[[Any], ModelResponse], transport: Any, name: str) -> Any:
    """What a block commits; the requests must not be more than one."""
    model = ScriptedModel(respond, name=name)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport, max_corrective_turns=0)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        try:
            end: Any = ("returned", await function())
        except PassedError as passed:
            end = ("passed", passed.args)
        except (ValueError, nh.ExecutionError) as error:
            end = ("raised", type(error))  # with the text of the answer, where it was refused
    assert len(model.requests) <= 1
    return end


def response(text: str, transport: str) -> ModelResponse:
    if transport == "tool":
        return model_response(ToolCall(id="call", name="nh_outcome", arguments=text))
    return model_response(text=text)


@settings(max_examples=50)
@given(
    data=st.data(),
    bound=types(),
    returned=types(),
    transport=st.sampled_from(["tool", "native", "direct"]),
    name=st.sampled_from(MODELS),
    disguise=st.sampled_from(sorted(DISGUISES)),
)
def test_an_answer_commits_the_same_in_every_form_that_can_only_mean_it(
    data: st.DataObject, bound: Any, returned: Any, transport: Any, name: str, disguise: str
) -> None:
    drawn: list[dict[str, Any]] = []

    def draw(request: nh.models.ModelRequest) -> ModelResponse:
        form = request.response_format
        schema = request.tools[-1].parameters if form is None else form.schema
        drawn.append(data.draw(answers(schema)))
        return response(json.dumps(drawn[0]), transport)

    plain = anyio.run(committed, block(bound, returned), draw, transport, name)
    if not drawn:  # in the direct transport, of a type that cannot be asked for
        return
    text = DISGUISES[disguise](drawn[0])
    assume("\\U" not in text and " at 0x" not in repr(plain))

    def answer(_: nh.models.ModelRequest) -> ModelResponse:
        return response(text, transport)

    assert repr(anyio.run(committed, block(bound, returned), answer, transport, name)) == repr(plain)
