"""Requests of models as a person reads them, and answers as a person writes them, in each protocol."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..pickling import PicklableError
from ..types.json import is_json_list, is_json_mapping
from ..types.messages import ToolCall
from .model_reply import ModelReply, as_objects

_INDENT = 2


class AnswerFormError(PicklableError, ValueError):
    """A text is no answer in a form that is known."""


@dataclass(frozen=True, slots=True)
class ReadableRequest:
    """The request to a model, whatever the protocol.

    Args:
        messages: Who says what, in order: `system`, `user`, `assistant`, `call NAME` or `result`, and the
            text.
        tools: The name, the description and the schema of each tool.
        form: The schema of the answer, if the answer has to be JSON; None otherwise.
    """

    messages: tuple[tuple[str, str], ...]
    tools: tuple[tuple[str, str, object], ...]
    form: object = None

    def __str__(self) -> str:
        parts = [f"## {who}\n\n{text}\n" for who, text in self.messages]
        parts += [f"## tool {name}\n\n{text}\n\n{_pretty(schema)}\n" for name, text, schema in self.tools]
        parts += [] if self.form is None else [f"## the form of the answer\n\n{_pretty(self.form)}\n"]
        return "\n".join(parts)


def readable_request(path: str, body: Mapping[str, Any]) -> ReadableRequest:
    """Read a request.

    Args:
        path: The path that it was sent to, which says the protocol.
        body: Its body.
    """
    if path.endswith("/chat/completions"):
        return _read_chat(body)
    if path.endswith(("/messages", ":rawPredict", ":streamRawPredict")):
        return _read_anthropic(body)
    if path.endswith("/responses"):
        return _read_responses(body)
    return _read_google(body)


def _read_chat(body: Mapping[str, Any]) -> ReadableRequest:
    messages: list[tuple[str, str]] = []
    for each in as_objects(body.get("messages")):
        role = str(each.get("role"))
        messages += _said("result" if role == "tool" else role, each.get("content"))
        for call in as_objects(each.get("tool_calls")):
            messages.append(_called(call.get("function")))
    functions = (_mapping(each.get("function")) for each in as_objects(body.get("tools")))
    form = _mapping(_mapping(body.get("response_format")).get("json_schema")).get("schema")
    return ReadableRequest(tuple(messages), _tools(functions, "parameters"), form)


def _read_anthropic(body: Mapping[str, Any]) -> ReadableRequest:
    messages = _said("system", body.get("system"))
    for each in as_objects(body.get("messages")):
        content = each.get("content")
        for block in as_objects(content) if is_json_list(content) else [{"type": "text", "text": content}]:
            match block.get("type"):
                case "tool_use":
                    messages.append(_called({**block, "arguments": block.get("input")}))
                case "tool_result":
                    messages += _said("result", block.get("content"))
                case _:
                    messages += _said(str(each.get("role")), [block])
    return ReadableRequest(tuple(messages), _tools(as_objects(body.get("tools")), "input_schema"))


def _read_responses(body: Mapping[str, Any]) -> ReadableRequest:
    messages = _said("system", body.get("instructions"))
    given = body.get("input")
    for each in as_objects(given) if is_json_list(given) else [{"role": "user", "content": given}]:
        match each.get("type", "message"):
            case "message":
                messages += _said(str(each.get("role")), each.get("content"))
            case "function_call":
                messages.append(_called(each))
            case "function_call_output":
                messages += _said("result", each.get("output"))
            case kind:
                messages.append((str(kind), _pretty(each)))
    form = _mapping(_mapping(body.get("text")).get("format")).get("schema")
    return ReadableRequest(tuple(messages), _tools(as_objects(body.get("tools")), "parameters"), form)


def _read_google(body: Mapping[str, Any]) -> ReadableRequest:
    messages = _said("system", _mapping(body.get("systemInstruction")).get("parts"))
    for each in as_objects(body.get("contents")):
        for part in as_objects(each.get("parts")):
            if "functionCall" in part:
                messages.append(
                    _called(
                        {
                            "arguments": _mapping(part["functionCall"]).get("args"),
                            **_mapping(part["functionCall"]),
                        }
                    )
                )
            elif "functionResponse" in part:
                messages += _said("result", _pretty(_mapping(part["functionResponse"]).get("response")))
            else:
                messages += _said({"model": "assistant"}.get(str(each.get("role")), "user"), [part])
    declared = (
        function
        for tool in as_objects(body.get("tools"))
        for function in as_objects(tool.get("functionDeclarations"))
    )
    tools = tuple(
        (
            str(each.get("name")),
            str(each.get("description", "")),
            each.get("parametersJsonSchema", each.get("parameters")),
        )
        for each in declared
    )
    form = _mapping(body.get("generationConfig")).get("responseJsonSchema")
    return ReadableRequest(tuple(messages), tools, form)


def _said(who: str, content: object) -> list[tuple[str, str]]:
    """A message; none without content. What is no text is named by its type."""
    if isinstance(content, str):
        return [(who, content)] if content else []
    texts = [
        str(part["text"]) if isinstance(part.get("text"), str) else f"[{part.get('type', 'media')}]"
        for part in as_objects(content)
    ]
    return [(who, "\n".join(texts))] if texts else []


def _called(function: object) -> tuple[str, str]:
    call = _mapping(function)
    arguments = call.get("arguments")
    return f"call {call.get('name')}", arguments if isinstance(arguments, str) else _pretty(arguments)


def _tools(functions: Iterable[Mapping[str, Any]], schema: str) -> tuple[tuple[str, str, object], ...]:
    return tuple(
        (str(each.get("name", each.get("type"))), str(each.get("description", "")), each.get(schema))
        for each in functions
    )


def read_answer(text: str) -> ModelReply:
    """Read an answer: a text, or JSON in one of these forms.

    - `{"text": "…", "tool_calls": [{"name": "…", "arguments": {…}}]}`, or one such call, or a list of them;
    - a message or a whole response of Chat Completions, Anthropic Messages, OpenAI Responses or the Gemini
      API.

    Args:
        text: The content of the file.

    Raises:
        AnswerFormError: It is JSON in another form.
    """
    try:
        value: object = json.loads(text)
    except ValueError:
        return ModelReply(text=text)
    if is_json_list(value):
        return _reply(as_objects(value), all_of=value)
    if not is_json_mapping(value):
        return ModelReply(text=text)
    for outer in ("choices", "candidates"):
        if (first := next(iter(as_objects(value.get(outer))), None)) is not None:
            value = _mapping(first.get("message", first.get("content")))
    for inner in ("content", "output", "parts"):
        if is_json_list(parts := value.get(inner)) and "tool_calls" not in value:
            return _reply(list(_flat(as_objects(parts))), all_of=None)
    if "name" in value:
        return _reply([dict(value)], all_of=None)
    if not {"text", "content", "tool_calls"} & value.keys():
        return ModelReply(text=text)  # an answer whose form is JSON
    calls = as_objects(value.get("tool_calls"))
    said = value.get("text") or value.get("content") or ""
    return ModelReply(text=str(said), tool_calls=tuple(map(_tool_call, calls)))


def _flat(parts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The parts of messages among some parts, beside the others."""
    for part in parts:
        if part.get("type") == "message" and is_json_list(content := part.get("content")):
            yield from as_objects(content)
        else:
            yield dict(part)


def _reply(parts: list[dict[str, Any]], *, all_of: list[Any] | None) -> ModelReply:
    if all_of is not None and len(parts) != len(all_of):
        raise AnswerFormError("a list of calls has objects with a name and arguments")
    texts = [str(part["text"]) for part in parts if isinstance(part.get("text"), str)]
    calls = [
        part for part in parts if not isinstance(part.get("text"), str) and part.get("type") not in _PASSED_BY
    ]
    return ModelReply(text="".join(texts), tool_calls=tuple(map(_tool_call, calls)))


_PASSED_BY = frozenset({"reasoning", "thinking", "redacted_thinking"})


def _tool_call(part: Mapping[str, Any]) -> ToolCall:
    call = _mapping(part.get("function", part.get("functionCall", part)))
    name = call.get("name")
    empty: dict[str, Any] = {}
    arguments: object = next((call[each] for each in ("arguments", "input", "args") if each in call), empty)
    if not isinstance(name, str):
        raise AnswerFormError(f"a call has a name and arguments, not {_pretty(part)[:200]}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id="", name=name, arguments=text)


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if is_json_mapping(value) else {}


def _pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=_INDENT)
