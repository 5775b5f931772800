"""Checks of a request against the rules of its endpoint, before anything is sent.

An endpoint answers a request that breaks one with HTTP 400 or 422, in words that often name neither the
setting nor what to do.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from ..errors import ConfigurationError
from ..types.endpoint_rules import EndpointRules, SettingRule
from ..types.json import is_json_mapping, is_list_or_tuple
from ..types.model import ModelRequest
from .fitting import NAMES_OF_MAX_TOKENS

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
    names = NAMES_OF_MAX_TOKENS if rule.setting == "max_tokens" else (rule.setting,)
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
