"""Refusals of real endpoints beyond their protocols, for a `ModelServer`.

Each endpoint has the checks that its documentation, the types of its SDK or recorded answers show, in the
words of the endpoint. They are written from these sources, not from the library's own table
(`catalog.endpoint_rules`, which names them), so that each checks the other.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from ..catalog.providers import PROVIDERS
from ..suggestions import did_you_mean
from ..types.json import is_json_list, is_json_mapping
from .model_reply import ModelReply, RecordedRequest, as_objects, to_json

_Body: TypeAlias = Mapping[str, Any]
_Check: TypeAlias = Callable[[_Body], ModelReply | None]

_LATEST_REASONING = re.compile(r"o3(-20.*|-pro.*)?|o4-mini.*|gpt-5(-[^c].*)?")
_OLDER_CHAT_MODELS = re.compile(r"gpt-[34].*|chatgpt-4o.*|ft:gpt-[34].*")
_CLAUDE_ONE_OF_BOTH = re.compile(r".*claude-(\w+-4-[56]|opus-4-1).*")
_MISTRAL_ID = re.compile("[a-zA-Z0-9]{9}")


def _openai_error(message: str, *, param: str | None = None, code: str | None = None) -> ModelReply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return ModelReply(status=400, error=error)


def _messages(body: _Body) -> list[dict[str, Any]]:
    return as_objects(body.get("messages"))


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _too_many_tools(most: int) -> _Check:
    def check(body: _Body) -> ModelReply | None:
        offered = [tool for tool in as_objects(body.get("tools")) if not tool.get("defer_loading")]
        if len(offered) <= most:
            return None
        message = (
            f"Invalid 'tools': array too long. Expected an array with maximum length {most}, but got an "
            f"array with length {len(offered)} instead."
        )
        return _openai_error(message, param="tools", code="array_above_max_length")

    return check


def _too_many_stops(most: int) -> _Check:
    def check(body: _Body) -> ModelReply | None:
        stop: object = body.get("stop")
        if not is_json_list(stop) or len(stop) <= most:
            return None
        message = (
            f"Invalid 'stop': array too long. Expected an array with maximum length {most}, but got an array "
            f"with length {len(stop)} instead."
        )
        return _openai_error(message, param="stop", code="array_above_max_length")

    return check


def _too_hot(highest: float) -> _Check:
    def check(body: _Body) -> ModelReply | None:
        if _number(body.get("temperature")) <= highest:
            return None
        message = (
            f"Invalid 'temperature': decimal above maximum value. Expected a value <= {highest:g}, but got "
            f"{body['temperature']} instead."
        )
        return _openai_error(message, param="temperature", code="decimal_above_max_value")

    return check


def _call_ids(body: _Body) -> Iterator[tuple[str, str]]:
    """The ids of calls in Chat Completions, each with its place."""
    for number, message in enumerate(_messages(body)):
        for place, call in enumerate(as_objects(message.get("tool_calls"))):
            yield f"messages[{number}].tool_calls[{place}].id", str(call.get("id"))
        if message.get("role") == "tool":
            yield f"messages[{number}].tool_call_id", str(message.get("tool_call_id"))


def _longer_ids(ids: Iterator[tuple[str, str]], most: int) -> ModelReply | None:
    for place, call_id in ids:
        if len(call_id) > most:
            message = (
                f"Invalid '{place}': string too long. Expected a string with maximum length {most}, but got "
                f"a string with length {len(call_id)} instead."
            )
            return _openai_error(message, param=place, code="string_above_max_length")
    return None


def _openai_chat_ids(body: _Body) -> ModelReply | None:
    return _longer_ids(_call_ids(body), 40)


def _openai_responses_ids(body: _Body) -> ModelReply | None:
    items = enumerate(as_objects(body.get("input")))
    ids = ((f"input[{number}].call_id", str(item.get("call_id", ""))) for number, item in items)
    return _longer_ids(ids, 64)


def _openai_token_limit(body: _Body) -> ModelReply | None:
    if "max_tokens" not in body or _OLDER_CHAT_MODELS.fullmatch(str(body.get("model"))):
        return None
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
        "instead."
    )
    return _openai_error(message, param="max_tokens", code="unsupported_parameter")


def _openai_stop(body: _Body) -> ModelReply | None:
    if "stop" not in body or not _LATEST_REASONING.fullmatch(str(body.get("model"))):
        return None
    message = "Unsupported parameter: 'stop' is not supported with this model."
    return _openai_error(message, param="stop", code="unsupported_parameter")


def _openai_few_tokens(body: _Body) -> ModelReply | None:
    limit: object = body.get("max_output_tokens")
    if not isinstance(limit, int) or limit >= 16:
        return None
    message = (
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got "
        f"{limit} instead."
    )
    return _openai_error(message, param="max_output_tokens", code="integer_below_min_value")


_CHAT_FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal"})
_CALL_FIELDS = frozenset({"id", "type", "function"})


def _unknown_fields(body: _Body, known: frozenset[str]) -> Iterator[tuple[int, str, str]]:
    """The fields of messages that an endpoint does not know, with the number and the role of the message."""
    for number, message in enumerate(_messages(body)):
        names = message.keys() - known
        for call in as_objects(message.get("tool_calls")):
            names |= call.keys() - _CALL_FIELDS
        for name in sorted(names):
            yield number, str(message.get("role")), name


def _openai_fields(body: _Body) -> ModelReply | None:
    for number, _, name in _unknown_fields(body, _CHAT_FIELDS | {"audio", "function_call"}):
        message = f"Additional properties are not allowed ({name!r} was unexpected) - 'messages.{number}'"
        return _openai_error(message)
    return None


def _groq_fields(body: _Body) -> ModelReply | None:
    for number, role, name in _unknown_fields(body, _CHAT_FIELDS | {"reasoning"}):
        message = (
            f"'messages.{number}' : for 'role:{role}' the following must be satisfied"
            f"[('messages.{number}' : property '{name}' is unsupported)]"
        )
        return _openai_error(message)
    return None


def _deepseek_choice(body: _Body) -> ModelReply | None:
    choice: object = body.get("tool_choice")
    is_forced = choice == "required" or is_json_mapping(choice)
    if not is_forced or not _deepseek_thinks(body):
        return None
    return _openai_error("Thinking mode does not support this tool_choice", code="invalid_request_error")


def _deepseek_thinks(body: _Body) -> bool:
    thinking: object = body.get("thinking")
    return not is_json_mapping(thinking) or thinking.get("type") != "disabled"


def _deepseek_reasoning(body: _Body) -> ModelReply | None:
    if not _deepseek_thinks(body):
        return None
    for message in _messages(body):
        if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
            text = "The `reasoning_content` in the thinking mode must be passed back to the API."
            return _openai_error(text, code="invalid_request_error")
    return None


def _deepseek_messages_choice(body: _Body) -> ModelReply | None:
    choice: object = body.get("tool_choice")
    if not is_json_mapping(choice) or choice.get("type") not in ("any", "tool") or not _deepseek_thinks(body):
        return None
    return _claude_error("Thinking mode does not support this tool_choice")


def _mistral_error(status: int, message: object, *, kind: str, code: str | None = None) -> ModelReply:
    error = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return ModelReply(status=status, body=to_json(error), headers={"content-type": "application/json"})


def _extra_forbidden(*place: str | int) -> ModelReply:
    fault = {"type": "extra_forbidden", "loc": ["body", *place], "msg": "Extra inputs are not permitted"}
    return _mistral_error(422, {"detail": [fault]}, kind="invalid_request_error")


# mistralai, models/chatcompletionrequest.py.
_MISTRAL_FIELDS = frozenset(
    {
        *("model", "messages", "temperature", "top_p", "max_tokens", "stream", "stop", "random_seed"),
        *("metadata", "response_format", "tools", "tool_choice", "presence_penalty", "frequency_penalty"),
        *("n", "prediction", "parallel_tool_calls", "prompt_mode", "safe_prompt", "guardrails"),
        *("reasoning_effort", "prompt_cache_key"),
    }
)


def _mistral_fields(body: _Body) -> ModelReply | None:
    for name in body.keys() - _MISTRAL_FIELDS:
        return _extra_forbidden(name)
    for number, role, name in _unknown_fields(body, _CHAT_FIELDS - {"refusal"} | {"prefix"}):
        return _extra_forbidden("messages", number, role, name)
    return None


def _mistral_order(body: _Body) -> ModelReply | None:
    roles = [str(message.get("role")) for message in _messages(body)]
    for earlier, later in pairwise(roles):
        if (earlier, later) == ("tool", "user"):
            message = "Unexpected role 'user' after role 'tool'"
            return _mistral_error(400, message, kind="invalid_request_message_order", code="3230")
    if roles and roles[-1] == "assistant":
        message = (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        )
        return _mistral_error(400, message, kind="invalid_request_message_order", code="3230")
    return None


def _mistral_ids(body: _Body) -> ModelReply | None:
    for _, call_id in _call_ids(body):
        if not _MISTRAL_ID.fullmatch(call_id):
            message = f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
            return _mistral_error(400, message, kind="invalid_function_call", code="3280")
    return None


def _mistral_temperature(body: _Body) -> ModelReply | None:
    if _number(body.get("temperature")) <= 1.5:
        return None
    fault = {
        "type": "less_than_equal",
        "loc": ["body", "temperature"],
        "msg": "Input should be less than or equal to 1.5",
    }
    return _mistral_error(422, {"detail": [fault]}, kind="invalid_request_error")


_IN_PATH = "model in the path"
_PREDICTED = re.compile(r"/([^/:]+):(?:streamRawPredict|rawPredict)")


def _claude_error(message: str) -> ModelReply:
    return ModelReply(status=400, error={"type": "invalid_request_error", "message": message})


def _claude_sampling(body: _Body) -> ModelReply | None:
    has_both = "temperature" in body and "top_p" in body
    if has_both and _CLAUDE_ONE_OF_BOTH.fullmatch(str(body.get("model", body.get(_IN_PATH)))):
        return _claude_error(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )
    if _number(body.get("temperature")) > 1:
        return _claude_error("temperature: range: 0..1")
    return None


def _claude_thinking(body: _Body) -> ModelReply | None:
    thinking: object = body.get("thinking")
    if not is_json_mapping(thinking) or thinking.get("type") == "disabled":
        return None
    if body.get("temperature", 1) != 1:
        return _claude_error("`temperature` may only be set to 1 when thinking is enabled.")
    if "top_k" in body:
        return _claude_error("`top_k` must be unset when thinking is enabled.")
    if _number(body.get("top_p", 1)) < 0.95:
        return _claude_error(
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
        )
    return None


def _gemini_error(message: str) -> ModelReply:
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return ModelReply(status=400, error=error)


def _gemini_cache(body: _Body) -> ModelReply | None:
    if "cachedContent" in body and any(
        body.get(name) for name in ("systemInstruction", "tools", "toolConfig")
    ):
        return _gemini_error(
            "CachedContent can not be used with GenerateContent request setting system_instruction, tools or "
            "tool_config."
        )
    return None


def _gemini_settings(body: _Body) -> ModelReply | None:
    generation: object = body.get("generationConfig")
    if not is_json_mapping(generation):
        return None
    stops: object = generation.get("stopSequences")
    if is_json_list(stops) and len(stops) > 5:
        return _gemini_error("The number of stop sequences must not exceed 5.")
    if _number(generation.get("temperature")) > 2:
        return _gemini_error("temperature must be in the range [0.0, 2.0].")
    return None


def _gemini_mixed(body: _Body) -> ModelReply | None:
    """The reply to text beside function responses: no error, but an answer with nothing in it."""
    for content in as_objects(body.get("contents")):
        kinds = {"functionResponse" in part for part in as_objects(content.get("parts"))}
        if len(kinds) > 1:
            return ModelReply()
    return None


def _deepseek_responses_choice(body: _Body) -> ModelReply | None:
    choice: object = body.get("tool_choice")
    is_forced = choice == "required" or is_json_mapping(choice)
    if not is_forced:
        return None
    return _openai_error("Thinking mode does not support this tool_choice", code="invalid_request_error")


def _vertex_body(body: _Body) -> ModelReply | None:
    if "anthropic_version" not in body:
        return _claude_error("anthropic_version: Field required")
    return _claude_error("model: Extra inputs are not permitted") if "model" in body else None


_OPENAI_CHAT: tuple[_Check, ...] = (
    _openai_chat_ids,
    _openai_stop,
    _openai_fields,
    _too_many_stops(4),
    _too_many_tools(128),
    _too_hot(2),
)
_OPENAI_RESPONSES = (_openai_responses_ids, _openai_few_tokens, _too_many_tools(128), _too_hot(2))
_CLAUDE = (_claude_sampling, _claude_thinking)
_GEMINI = (_gemini_cache, _gemini_settings, _gemini_mixed)

_CHECKS: Mapping[str, tuple[_Check, ...]] = {
    "openai-chat": (*_OPENAI_CHAT, _openai_token_limit),
    "openai-responses": _OPENAI_RESPONSES,
    "azure-chat": _OPENAI_CHAT,
    "azure": _OPENAI_RESPONSES,
    "anthropic": _CLAUDE,
    "azure-anthropic": _CLAUDE,
    "bedrock-anthropic": _CLAUDE,
    "bedrock-mantle-anthropic": _CLAUDE,
    "google": _GEMINI,
    "vertex": _GEMINI,
    "deepseek": (
        _deepseek_choice,
        _deepseek_reasoning,
        _too_many_stops(16),
        _too_many_tools(128),
        _too_hot(2),
    ),
    "deepseek-anthropic": (_deepseek_messages_choice,),
    "deepseek-responses": (_deepseek_responses_choice, _too_many_tools(128), _too_hot(2)),
    "mistral-responses": (_mistral_temperature,),
    "snowflake-anthropic": _CLAUDE,
    "vertex-anthropic": (*_CLAUDE, _vertex_body),
    "mistral": (_mistral_fields, _mistral_ids, _mistral_order, _mistral_temperature),
    "groq": (_groq_fields, _too_many_stops(4), _too_many_tools(128), _too_hot(2)),
    "xai": (_too_many_tools(128),),
    "xai-chat": (_too_many_tools(128),),
}


def checks_of(provider: str | None) -> tuple[_Check, ...]:
    """The checks of a provider's endpoint; none for an endpoint that takes everything.

    Args:
        provider: The provider; None for a server without rules of its own.

    Raises:
        ValueError: There is no such provider.
    """
    if provider is not None and provider not in PROVIDERS:
        hint = did_you_mean(provider, list(PROVIDERS))
        raise ValueError(f"ModelServer(rules=…) names a provider, and none is called {provider!r}.{hint}")
    return () if provider is None else _CHECKS.get(provider, ())


def find_refusal(request: RecordedRequest, checks: tuple[_Check, ...]) -> ModelReply | None:
    """The reply of an endpoint to a request that breaks one of its rules; None for any other.

    Args:
        request: The request; its body is a JSON object.
        checks: The checks of the endpoint.
    """
    named = _PREDICTED.search(request.path)
    body = request.body if named is None else {**request.body, _IN_PATH: named[1]}
    replies = (check(body) for check in checks)
    return next((reply for reply in replies if reply is not None), None)
