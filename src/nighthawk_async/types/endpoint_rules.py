"""Rules of an endpoint for the requests that it takes. Data only; the table is `catalog.endpoint_rules`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

ReasoningForm: TypeAlias = Literal["as sent", "reasoning_content", "reasoning", "thinking part", "none"]
"""The place in a message of Chat Completions in which an endpoint takes the reasoning of an earlier turn.

`"as sent"` is the one in which the server sent it; with `"none"`, the endpoint refuses it everywhere.
"""


class CallIdRule(Struct, frozen=True, kw_only=True):
    """The ids of tool calls that an endpoint takes; others are replaced, the same id by the same.

    Args:
        pattern: A regular expression for the whole id.
        length: The length of a replacement.
        has_prefix: Whether a replacement may begin with the readable part of the id; otherwise it consists of
            letters and digits.
    """

    pattern: str
    length: int
    has_prefix: bool = True


class SettingRule(Struct, frozen=True, kw_only=True):
    """A setting, or a part of a request, that an endpoint refuses.

    Args:
        setting: Its name, one of `ModelSettings`; `max_tokens` stands for all names of the limit.
        reason: The complaint, which follows the name of the setting.
        beside: It is refused only beside one of these: names of settings, `thinking` for a request that
            asks the model to think, `tools` for one that offers some, `system_prompt` for one that has it.
        above: It is refused above this number.
        below: It is refused below this number.
        unless: Values that are taken in any case.
        most: It is refused if it is a list of more entries.
        models: Patterns of the names of models for which the rule holds.
    """

    setting: str
    reason: str
    beside: tuple[str, ...] = ()
    above: float | None = None
    below: float | None = None
    unless: tuple[float, ...] = ()
    most: int | None = None
    models: tuple[str, ...] = ("*",)


class WebSocketRule(Struct, frozen=True, kw_only=True):
    """The WebSocket of an endpoint of OpenAI Responses.

    Args:
        lanes: The number of named lanes of a connection (`stream_id`), each with a conversation of its own; 0
            where a connection has one conversation.
        in_flight: The number of responses in flight on one connection.
        lifetime_seconds: Seconds after which a connection gets no more requests; it is closed at the end of
            those in flight. Servers close it later.
        has_steering: Whether it takes what a user says meanwhile into a running response
            (`response.steer`), at least for some models.
    """

    lanes: int = 0
    in_flight: int = 1
    lifetime_seconds: float = 55 * 60.0
    has_steering: bool = False


class EndpointRules(Struct, frozen=True, kw_only=True):
    """The rules of one endpoint. The defaults hold for a server that is not known.

    Args:
        hosts: Hosts of the endpoint, their subdomains included: a base URL there gets the rules, whatever the
            provider of the model id.
        forces_tools: Whether a request may demand a tool call.
        call_ids: The ids of tool calls that it takes; None for any.
        setting_names: Its names of settings, by the names that others use.
        refused_settings: The settings that it refuses.
        max_tools: The greatest number of tools in a request, deferred ones excepted; None for any.
        has_stream_options: Whether it takes `stream_options`; without them it reports usage anyway.
        has_user_after_results: Whether a user message may follow the results of tools at once.
        reasoning_form: The place in which it takes the reasoning of earlier turns.
        demands_reasoning: Whether it demands the reasoning of each earlier turn with tool calls.
        ignores_unknown_fields: Whether it ignores unknown fields of messages.
        has_text_beside_results: Whether text and media may share a content with the results of functions.
        predict_version: The version that a request of Messages names in its body, where the model is in the
            path, as on Vertex AI; empty for the protocol's own path.
        websocket: Its WebSocket; None where it is not known to have one.
        sources: The source of each rule, by the name of its field.
    """

    hosts: tuple[str, ...] = ()
    forces_tools: bool = True
    call_ids: CallIdRule | None = None
    setting_names: Mapping[str, str] = field(default_factory=dict[str, str])
    refused_settings: tuple[SettingRule, ...] = ()
    max_tools: int | None = None
    has_stream_options: bool = True
    has_user_after_results: bool = True
    reasoning_form: ReasoningForm = "as sent"
    demands_reasoning: bool = False
    ignores_unknown_fields: bool = True
    has_text_beside_results: bool = True
    predict_version: str = ""
    websocket: WebSocketRule | None = None
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

    def __reduce__(self) -> tuple[Any, ...]:
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        return _remade, ({name: dict(each) if name in _MAPPINGS else each for name, each in fields.items()},)


_MAPPINGS = ("setting_names", "sources")


def _remade(fields: Mapping[str, Any]) -> EndpointRules:
    """Return the rules of a pickle, which holds no read-only mappings."""
    whole: dict[str, Any] = dict(fields)
    for name in _MAPPINGS:
        whole[name] = MappingProxyType(fields[name])
    return EndpointRules(**whole)


NO_RULES = EndpointRules()
"""The rules of a server that is not known."""
