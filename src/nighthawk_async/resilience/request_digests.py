"""Digests of model requests: equal ones for requests in which everything that reaches the model is equal."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain
from typing import Any, Protocol, cast, runtime_checkable

from ..kernel.context import StepContext
from ..kernel.environment import find_environment
from ..kernel.tools import EFFECT_MARK
from ..policies.attempts.samples import current_sample
from ..ports import HasSettings, Model
from ..recording.redaction import encoded, hide_secrets, plain
from ..recording.requests import canonical_request
from ..secret_names import is_secret_name
from ..types.json import is_json_mapping
from ..types.messages import BinaryContent, FileUrl
from ..types.model import ModelCapabilities, ModelRequest
from ..values.request_bound import find_unknown_input
from ..wire.transport_settings import TRANSPORT_SETTINGS

_FORM = 1
"""The form of digests and of the bodies kept under them; responses of another form are not found."""

_ACTING_SETTINGS = ("background", "container", "native_tools", "plugins", "store", "tools")
"""Settings with which the provider keeps something, or runs tools of its own."""


@runtime_checkable
class _HasEndpoint(Protocol):
    """A model with an endpoint, beside `ports.Model`."""

    def endpoint_of(self, settings: Mapping[str, Any]) -> Any:
        """Return the endpoint of a request; its `base_url` is a split URL."""
        ...


def digest_of(model: Model, request: ModelRequest) -> bytes | None:
    """Return the digest of all that reaches the model, and of the current sample.

    Nothing is redacted in it, so that requests with different secrets are different; keys, time limits and
    other settings of the transport do not count.

    Args:
        model: The model.
        request: The request.

    Returns:
        None for a request with effects, which is not cached.

    Raises:
        ConfigurationError: A setting is bad.
    """
    settings = model.settings_of(request.settings) if isinstance(model, HasSettings) else request.settings
    given: object = settings.get("extra_body")
    extra: Mapping[str, Any] = given if is_json_mapping(given) else {}
    body = {**settings, **extra}
    if find_unknown_input(settings) is not None or any(body.get(name) for name in _ACTING_SETTINGS):
        return None
    if _may_call_once(request):
        return None
    endpoint = model.endpoint_of(request.settings) if isinstance(model, _HasEndpoint) else None
    url = None if endpoint is None else hide_secrets(endpoint.base_url.geturl())
    parts = [
        _FORM,
        model.name,
        _capabilities(model.capabilities),
        url,
        {
            name: plain(value)
            for name, value in settings.items()
            if name not in TRANSPORT_SETTINGS | {"stream"}
        },
        plain(extra),
        _headers(settings.get("extra_headers")),
        canonical_request(replace(request, settings={})),
        list(_media_digests(request)),
        current_sample(),
    ]
    return hashlib.sha256(encoded(parts)).digest()


def _capabilities(capabilities: ModelCapabilities) -> dict[str, Any]:
    """The capabilities that differ from the defaults, so that new ones change no digest."""
    return {
        each.name: plain(value)
        for each in fields(capabilities)
        if each.name != "price" and (value := getattr(capabilities, each.name)) != each.default
    }


def _headers(headers: object) -> dict[str, str]:
    """The headers of a request that are no secrets."""
    if not is_json_mapping(headers):
        return {}
    items = headers.items()
    return {str(name).lower(): str(value) for name, value in items if not is_secret_name(str(name))}


def _media_digests(request: ModelRequest) -> Iterator[str]:
    """Yield whole digests of media, because the canonical form has only short ones."""
    for message in request.messages:
        for item in message.content:
            if isinstance(item, BinaryContent):
                yield hashlib.sha256(item.data).hexdigest()
            elif isinstance(item, FileUrl):
                yield hashlib.sha256(item.url.encode(errors="surrogatepass")).hexdigest()


def _may_call_once(request: ModelRequest) -> bool:
    """Whether the response may ask for a call that is decorated with `once`."""
    environment = find_environment()
    if environment is None:
        return False
    visible = environment.tool_scope.visible()
    tools = (visible[tool.name].function for tool in request.tools if tool.name in visible)
    values = () if environment.step is None else _named_values(environment.step.context)
    return any(_is_once(value) for value in chain[object](tools, values))


def _named_values(context: StepContext) -> Iterator[object]:
    for name in dict.fromkeys(reference.partition(".")[0] for reference in context.references):
        value = context.step_locals.get(name, context.referenced_globals.get(name))
        yield value
        kind = value if isinstance(value, type) else type(value)
        if kind.__module__ != "builtins":
            for each in kind.__mro__:
                yield from tuple(vars(each).values())


def _is_once(value: object) -> bool:
    is_method = isinstance(value, staticmethod | classmethod)
    function: object = cast("Any", value).__func__ if is_method else value
    try:
        mark: object = getattr(function, EFFECT_MARK, None)
    except Exception:  # an object of the program's may raise anything
        return False
    return isinstance(mark, str) and mark == "once"
