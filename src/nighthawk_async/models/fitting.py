"""Fits a request to the capabilities of its model and the rules of its endpoint, before anything is sent.

Features that the model lacks are refused (`check_features`), except a demand to call some tool: a model that
cannot be forced is left the choice. Content of the prompt that the model cannot take is an error. Content
that the protocol cannot carry, which no setting changes, is reported first. Content of a tool result is
replaced by a text that describes it, since the model may continue without it (specification 8.3).

An endpoint answers a request that breaks one of its rules with HTTP 400 or 422, in words that often name
neither the setting nor what to do, so such a request is refused here (`RequestRules`).

For pacing, the tokens of a request are estimated: four bytes of JSON are about one token. Bytes of media are
not counted: providers have other measures for them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias, get_args

from msgspec import Struct

from ..catalog.models import remedy
from ..errors import ConfigurationError, UnsupportedContentError
from ..types.endpoint_rules import EndpointRules, SettingRule
from ..types.json import is_json_mapping, is_list_or_tuple
from ..types.messages import (
    AssistantMessage,
    BinaryContent,
    Message,
    MultimodalContent,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from ..types.model import ModelCapabilities, ModelRequest, NamedToolChoice, ReasoningEffort, ToolChoice
from ..values.request_bound import find_output_limit
from ..wire.media import MediaKind, describe_media, is_all_text, media_kind
from ..wire.native_tools import native_tools_of

_BYTES_PER_TOKEN = 4


def estimate_input_tokens(request: ModelRequest, body: bytes) -> int:
    """An estimate of the tokens of a request.

    Args:
        request: The request.
        body: The request as it is sent.
    """
    media = sum(_base64_bytes(each) for each in _binary_contents(request))
    made = sum(_base64_bytes(each) for each in _made_contents(request))
    if made + media < len(body):  # otherwise they are sent as descriptions
        media += made
    return max(len(body) - media, 0) // _BYTES_PER_TOKEN


def response_tokens(settings: Mapping[str, Any]) -> int:
    """The tokens that a response may hold; 0 when the settings do not limit them.

    Args:
        settings: The settings of a request.
    """
    return find_output_limit(settings)


def _binary_contents(request: ModelRequest) -> Iterator[BinaryContent]:
    for message in request.messages:
        if isinstance(message, UserMessage):
            yield from (item for item in message.content if isinstance(item, BinaryContent))
        elif isinstance(message, ToolResultsMessage):
            for result in message.results:
                yield from (item for item in result.content if isinstance(item, BinaryContent))


def _made_contents(request: ModelRequest) -> Iterator[BinaryContent]:
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            yield from (item for item in message.media if isinstance(item, BinaryContent))


def _base64_bytes(content: BinaryContent) -> int:
    return (len(content.data) + 2) // 3 * 4


class _Fault(NamedTuple):
    """A fault of a request, and the field of `ModelCapabilities` that it contradicts."""

    complaint: str
    capability: str
    needed: object = True


class _Feature(NamedTuple):
    """A field of `ModelCapabilities`, the settings that need it, and the complaint when it is missing."""

    capability: str
    settings: tuple[str, ...]
    complaint: str


_REASONING_SETTINGS = (
    "include_thoughts",
    "reasoning_effort",
    "reasoning_summary",
    "thinking",
    "thinking_budget_tokens",
)
_FEATURES = (
    _Feature("reasoning", _REASONING_SETTINGS, "the model's reasoning cannot be configured"),
    _Feature("prompt_caching", ("prompt_caching",), "the model's prompt caching cannot be configured"),
    _Feature("parallel_tool_calls", ("parallel_tool_calls",), "the model calls one tool at a time"),
    _Feature("context_management", ("context_management",), "the endpoint cannot compact conversations"),
    _Feature("sampling", ("temperature", "top_p", "top_k"), "the model's sampling cannot be configured"),
)
_OFF: tuple[object, ...] = ("none", 0, {"type": "disabled"})
"""Values of reasoning settings that turn it off."""

_EFFORTS: tuple[str, ...] = get_args(ReasoningEffort)
"""The known words for reasoning; codecs refuse others."""

_NAMES_OF_MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The endpoints' names of the setting `max_tokens`; it may have been renamed already."""


def check_features(request: ModelRequest, capabilities: ModelCapabilities, *, model_id: str) -> None:
    """Check that the model supports everything that the request needs.

    Args:
        request: The request, with all effective settings.
        capabilities: The capabilities of the model.
        model_id: The model's id, for errors.

    Raises:
        ConfigurationError: It asks for what the model lacks.
    """
    fault = next(_faults(request, capabilities), None)
    if fault is not None:
        way_out = remedy(model_id, fault.capability, fault.needed)
        raise ConfigurationError(f"{model_id}: {fault.complaint}.{way_out}")


def _faults(request: ModelRequest, capabilities: ModelCapabilities) -> Iterator[_Fault]:
    if request.tools:
        yield from _faults_of_tools(request, capabilities)
    if request.response_format is not None and not capabilities.structured_output:
        yield _Fault("the model does not hold its answers to a JSON Schema", "structured_output")
    for feature in _FEATURES:
        if not getattr(capabilities, feature.capability):
            yield from _faults_of_settings(feature, request.settings)
    yield from _faults_of_native_tools(request, capabilities)
    yield from _faults_of_effort(request.settings, capabilities)
    yield from _faults_of_max_tokens(request.settings, capabilities)


def _faults_of_tools(request: ModelRequest, capabilities: ModelCapabilities) -> Iterator[_Fault]:
    if not capabilities.tools:
        yield _Fault("the model does not call tools, so offer none (provided_tools=())", "tools")
    if not capabilities.tool_search and any(tool.is_deferred for tool in request.tools):
        yield _Fault("the provider does not search tools for the model (search='native')", "tool_search")
    # "required" is no fault: `models.fitting` leaves the choice to such a model.
    if isinstance(request.tool_choice, NamedToolChoice) and not capabilities.forced_tool_choice:
        name = request.tool_choice.name
        yield _Fault(f"the model cannot be made to call a tool, here {name!r}", "forced_tool_choice")
    if request.response_format is not None and not capabilities.structured_output_with_tools:
        yield _Fault(
            "the model does not hold its answers to a JSON Schema in a request that offers tools",
            "structured_output_with_tools",
        )
    if not capabilities.reasoning_with_tools:
        complaint = "the model's reasoning cannot be configured in a request that offers tools"
        feature = _Feature("reasoning_with_tools", _REASONING_SETTINGS, complaint)
        settings = {name: value for name, value in request.settings.items() if value not in _OFF}
        yield from _faults_of_settings(feature, settings)


def _faults_of_native_tools(request: ModelRequest, capabilities: ModelCapabilities) -> Iterator[_Fault]:
    known, tools = capabilities.native_tools, native_tools_of(request.settings)
    if tools and request.response_format is not None and not capabilities.structured_output_with_tools:
        yield _Fault(
            "the model does not hold its answers to a JSON Schema in a request with 'native_tools'",
            "structured_output_with_tools",
        )
    for tool in tools:
        if tool.name not in known:
            has = f"has only {_listed(known)}" if known else "has none"
            complaint = (
                f"the provider does not carry out {type(tool).__name__} for the model, which {has} of these "
                "tools, so leave it out of the model setting 'native_tools'"
            )
            yield _Fault(complaint, "native_tools", [*known, tool.name])


def _faults_of_settings(feature: _Feature, settings: Mapping[str, Any]) -> Iterator[_Fault]:
    for name in feature.settings:
        value: object = settings.get(name)
        if value is not None and value is not False:
            complaint = f"{feature.complaint}, so leave out the model setting {name!r}"
            yield _Fault(complaint, feature.capability)


def _faults_of_effort(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> Iterator[_Fault]:
    known, effort = capabilities.reasoning_efforts, settings.get("reasoning_effort")
    if known is None:
        return
    if effort in _EFFORTS and effort not in known:
        complaint = (
            f"the model setting 'reasoning_effort' is {effort!r}, but the model knows only {_listed(known)}"
        )
        yield _Fault(complaint, "reasoning_efforts", [*known, effort])
    for name in ("thinking", "thinking_budget_tokens"):
        value: object = settings.get(name)
        if "none" not in known and value in _OFF and value is not False:
            complaint = f"the model setting {name!r} is {value!r}, but the model always thinks"
            yield _Fault(complaint, "reasoning_efforts", ["none", *known])


def _faults_of_max_tokens(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> Iterator[_Fault]:
    most = capabilities.max_output_tokens
    for name in _NAMES_OF_MAX_TOKENS:
        wanted = settings.get(name)
        if most is not None and isinstance(wanted, int) and wanted > most:
            complaint = (
                f"the model setting {name!r} is {wanted:,}, but a response of the model holds at most "
                f"{most:,} tokens"
            )
            yield _Fault(complaint, "max_output_tokens", wanted)


def _listed(words: tuple[str, ...]) -> str:
    *others, last = [repr(word) for word in words]
    return f"{', '.join(others)} and {last}" if others else last


_UNCHECKED = "The model setting extra_body is sent as it is, should that have changed."


class RequestRules(Struct, frozen=True, kw_only=True):
    """The rules of an endpoint that hold for one model.

    Args:
        refused_settings: The settings that are refused.
        max_tools: The greatest number of tools; None for any.
    """

    refused_settings: tuple[SettingRule, ...]
    max_tools: int | None

    @classmethod
    def of_model(cls, rules: EndpointRules, model_name: str) -> "RequestRules":
        """The rules for a model.

        Args:
            rules: The rules of its endpoint.
            model_name: The model's name there.
        """
        refused = [rule for rule in rules.refused_settings if _covers(rule, model_name)]
        return cls(refused_settings=tuple(refused), max_tools=rules.max_tools)

    def check(self, request: ModelRequest, *, model_id: str) -> None:
        """Check a request.

        Args:
            request: The request, with all effective settings.
            model_id: The model's id, for errors.

        Raises:
            ConfigurationError: The endpoint would refuse the request.
        """
        if self.max_tools is not None and len(request.tools) > self.max_tools:
            self._check_number_of_tools(request, self.max_tools, model_id)
        for rule in self.refused_settings:
            name = _find_refused(rule, request)
            if name is not None:
                complaint = f"{model_id}: the model setting {name!r} {rule.reason}."
                raise ConfigurationError(f"{complaint} {_UNCHECKED}")

    def _check_number_of_tools(self, request: ModelRequest, most: int, model_id: str) -> None:
        offered = sum(not tool.is_deferred for tool in request.tools)
        if offered > most:
            raise ConfigurationError(
                f"{model_id}: the request offers {offered} tools, and the endpoint takes at most {most}. "
                "Offer fewer to a step (provided_tools), or let the model search them."
            )


def _covers(rule: SettingRule, model_name: str) -> bool:
    return any(fnmatchcase(model_name, pattern) for pattern in rule.models)


def _find_refused(rule: SettingRule, request: ModelRequest) -> str | None:
    """The name under which the request has what the endpoint refuses; None when it does not."""
    names = _NAMES_OF_MAX_TOKENS if rule.setting == "max_tokens" else (rule.setting,)
    for name in names:
        value: object = request.settings.get(name)
        if value is not None and _is_refused(rule, value):
            return name if not rule.beside or _has_any(rule.beside, request) else None
    return None


def _is_refused(rule: SettingRule, value: object) -> bool:
    if rule.most is not None:
        return is_list_or_tuple(value) and len(value) > rule.most
    if not isinstance(value, int | float):
        return value not in ("", [], ())
    if rule.above is not None or rule.below is not None:
        is_above = rule.above is not None and value > rule.above
        return is_above or (rule.below is not None and value < rule.below)
    return value not in rule.unless


def _has_any(names: tuple[str, ...], request: ModelRequest) -> bool:
    for name in names:
        if name == "tools":
            is_there = bool(request.tools or request.settings.get("native_tools"))
        elif name == "system_prompt":
            is_there = bool(request.system_prompt)
        elif name == "thinking":
            is_there = _thinks(request.settings)
        else:
            is_there = request.settings.get(name) is not None
        if is_there:
            return True
    return False


def _thinks(settings: Mapping[str, Any]) -> bool:
    """Whether the settings ask the model to think."""
    own: object = settings.get("thinking")
    if is_json_mapping(own):
        return own.get("type") != "disabled"
    is_budget = settings.get("thinking_budget_tokens") not in (None, 0)
    return is_budget or settings.get("reasoning_effort") not in (None, "none")


FindRefusal: TypeAlias = Callable[[MultimodalContent], str | None]
"""Returns the reason why a protocol cannot carry a media item, or None when it can."""


class FeatureCheck:
    """Checks requests to one model, and remembers what the last one asked for: the next ones ask the same."""

    __slots__ = ("_passed",)

    def __init__(self) -> None:
        self._passed: tuple[ModelCapabilities, ModelRequest] | None = None

    def check(self, request: ModelRequest, capabilities: ModelCapabilities, *, model_id: str) -> None:
        """Check a request; see `check_features`.

        Args:
            request: The request, with all effective settings, which nobody changes.
            capabilities: The capabilities of the model.
            model_id: The model's id, for errors.

        Raises:
            ConfigurationError: It asks for what the model lacks.
        """
        if self._passed is not None:
            known, last = self._passed
            if (
                capabilities is known
                and request.settings is last.settings
                and request.response_format is last.response_format
                and request.tools == last.tools
                and request.tool_choice == last.tool_choice
            ):
                return
        check_features(request, capabilities, model_id=model_id)
        self._passed = capabilities, replace(request, messages=())  # a conversation may be long


def fit_request(
    request: ModelRequest,
    capabilities: ModelCapabilities,
    *,
    model_id: str,
    find_refusal: FindRefusal,
    check: Callable[..., None] = check_features,
) -> ModelRequest:
    """The request in a form that the model can take; the same object when nothing had to change.

    Args:
        request: The request, with all effective settings.
        capabilities: The capabilities of the model.
        model_id: The model's id, for errors.
        find_refusal: The check for content that the protocol cannot carry.
        check: Checks the features, as `check_features` does.

    Raises:
        ConfigurationError: It asks for what the model lacks.
        UnsupportedContentError: A user message holds content that the protocol cannot carry or the model
            cannot take.
    """
    check(request, capabilities, model_id=model_id)
    missing = _missing_kinds(capabilities)
    _check_user_content(request, missing, model_id, find_refusal)
    messages = tuple([_fit_message(message, missing) for message in request.messages])
    tool_choice = _fit_tool_choice(request, capabilities)
    is_same = all(new is old for new, old in zip(messages, request.messages, strict=True))
    if is_same and tool_choice == request.tool_choice:
        return request
    return replace(request, messages=messages, tool_choice=tool_choice)


def _fit_tool_choice(request: ModelRequest, capabilities: ModelCapabilities) -> ToolChoice:
    """Leave the choice to a model that cannot be forced to call a tool; it usually calls one."""
    is_demanded = request.tool_choice == "required" and bool(request.tools)
    return "auto" if is_demanded and not capabilities.forced_tool_choice else request.tool_choice


def _missing_kinds(capabilities: ModelCapabilities) -> dict[MediaKind, str]:
    """The kinds of media that the model cannot take, each with the name of the capability."""
    missing: dict[MediaKind, str] = {}
    if not capabilities.images:
        missing["image"] = "images"
    if not capabilities.audio:
        missing["audio"] = "audio"
    if not capabilities.video:
        missing["video"] = "video"
    if not capabilities.documents:
        missing["document"] = "documents"
    return missing


def _check_user_content(
    request: ModelRequest, missing: dict[MediaKind, str], model_id: str, find_refusal: FindRefusal
) -> None:
    # First the limits that cannot be changed: the setting that the other message recommends would not help.
    for item in _user_media(request):
        if (refusal := find_refusal(item)) is not None:
            raise UnsupportedContentError(f"{model_id}: {refusal}.")
    for item in _user_media(request):
        if (name := missing.get(media_kind(item))) is not None:
            raise UnsupportedContentError(
                f"{model_id}: the model cannot take {describe_media(item)}.{remedy(model_id, name)}"
            )


def _user_media(request: ModelRequest) -> Iterator[MultimodalContent]:
    for message in request.messages:
        if isinstance(message, UserMessage):
            yield from (item for item in message.content if not isinstance(item, str))


def _fit_message(message: Message, missing: dict[MediaKind, str]) -> Message:
    match message:
        case UserMessage() | AssistantMessage():
            return message
        case ToolResultsMessage():
            if all(is_all_text(result.content) for result in message.results):
                return message
            return ToolResultsMessage(results=tuple([_fit_result(each, missing) for each in message.results]))


def _fit_result(result: ToolResult, missing: dict[MediaKind, str]) -> ToolResult:
    content = tuple([_fit_item(item, missing) for item in result.content])
    return replace(result, content=content)


def _fit_item(item: UserContent, missing: dict[MediaKind, str]) -> UserContent:
    if isinstance(item, str) or media_kind(item) not in missing:
        return item
    return f"[{describe_media(item)}; it cannot be shown to this model]"
