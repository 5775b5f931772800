"""Checks of model settings: those of a protocol, and those that control only the transport.

The latter are never part of a request's body. The default of one setting is made here as well: that of
`prompt_cache_key` in OpenAI's protocols.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from math import isfinite
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ..errors import ConfigurationError
from ..suggestions import closest
from ..types.json import is_json_mapping, is_list_or_tuple, is_mapping, is_sequence
from ..types.model import ModelCapabilities, ModelRequest
from .added_tools import with_more_tools
from .native_tools import native_tools_of

TRANSPORT_SETTINGS = frozenset(
    {
        "api_key",
        "base_url",
        "capabilities",
        "connect_timeout",
        "credentials",
        "endpoint_rules",
        "extra_body",
        "extra_headers",
        "first_event_timeout",
        "idempotency_header",
        "idle_timeout",
        "max_concurrent_requests",
        "max_response_bytes",
        "max_retries",
        "queue_timeout",
        "requests_per_minute",
        "timeout",
        "tokens_per_minute",
        "transport",
        "upload_media_above_bytes",
        "uploads_expire_after_seconds",
    }
)
"""The names of those settings."""


def merge_extra_body(body: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A body with the additions of the setting `extra_body`, which takes precedence over everything else.

    Objects are merged at every depth; other values are replaced. Its `tools` are added to those of the body,
    which the model would lack otherwise, and its `include` to the names in it.

    Args:
        body: A request's body; it stays as it is.
        settings: All settings of a request.

    Raises:
        ConfigurationError: The setting is not a mapping, or its tools cannot be added.
    """
    extra: object = settings.get("extra_body")
    if not extra:
        return dict(body)
    if not is_json_mapping(extra):
        raise ConfigurationError(f"Model setting 'extra_body' must be a mapping, not {type(extra).__name__}.")
    merged: dict[str, Any] = _merged(body, extra)
    if "tools" in extra:
        merged["tools"] = with_more_tools(body.get("tools", ()), extra["tools"])
        if not merged["tools"]:
            del merged["tools"]
    if is_list_or_tuple(names := extra.get("include")) and "include" in body:
        merged["include"] = list(dict.fromkeys([*body["include"], *names]))
    return merged


def _merged(below: object, above: Any) -> Any:
    if not is_json_mapping(below) or not is_json_mapping(above):
        return above
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}


def check_setting_names(
    settings: Mapping[str, Any],
    form: type[Any],
    *,
    may_have_others: bool,
    more: frozenset[str] = frozenset(),
) -> None:
    """Check the names of settings for spelling mistakes.

    A name that resembles none of the known ones is accepted: an endpoint may have settings that the library
    does not know.

    Args:
        settings: Settings of a model.
        form: The typed dictionary of the protocol, of `types.model`.
        may_have_others: Whether the endpoint is another server than the provider's own, and may really have a
            setting of a similar name: then there is a warning.
        more: Further known names.

    Raises:
        ConfigurationError: A name is unknown, and resembles a known one.
    """
    known = frozenset(form.__optional_keys__) | more
    for name in settings:
        found = None if name in known else closest(str(name), known)
        if found is None:
            continue
        message = (
            f"Model setting {name!r} is not known. Did you mean {found!r}? What only the server knows can be "
            "given through extra_body."
        )
        if not may_have_others:
            raise ConfigurationError(message)
        warnings.warn(message, UserWarning, stacklevel=2)


_OPEN = ConfigDict(extra="allow", hide_input_in_errors=True, arbitrary_types_allowed=True)


def checked_settings(settings: Mapping[str, Any], form: type[Any]) -> dict[str, Any]:
    """The settings that concern a request's body, without those that are None.

    Settings that the form does not name are kept as they are. So is `stop`, without empty texts: some
    endpoints would end every response at once for such a text, and others refuse it. Codecs take
    `native_tools` from `wire.native_tools`; here they are only checked.

    Args:
        settings: All settings of a request.
        form: The typed dictionary of the protocol, of `types.model`.

    Raises:
        ConfigurationError: A setting has a bad value, or `extra_body` one that JSON cannot write; the message
            names the setting and does not show the value.
    """
    _refuse_what_json_lacks({"extra_body": settings.get("extra_body")})
    relevant = {
        name: value
        for name, value in settings.items()
        if name not in TRANSPORT_SETTINGS and name != "native_tools" and value is not None
    }
    native_tools_of(settings)
    if not relevant:
        return {}
    _refuse_what_json_lacks(relevant)
    try:
        checked: dict[str, Any] = _adapter(form).validate_python(relevant)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
        raise ConfigurationError(f"Bad model setting {'; '.join(faults)}.") from None
    return _without_empty_stop(checked)


def refuse_settings(settings: Mapping[str, Any], names: frozenset[str], *, protocol: str) -> None:
    """Refuse settings that a protocol does not have.

    Args:
        settings: Settings of a request.
        names: The settings that the protocol lacks.
        protocol: The name of the protocol.

    Raises:
        ConfigurationError: One of them is set.
    """
    for name in sorted(names):
        if settings.get(name) not in (None, "", [], ()):
            raise ConfigurationError(
                f"The {protocol} protocol has no setting {name!r}; leave it out, or pass what the endpoint "
                "understands in its place through extra_body."
            )


def refuse_reserved_settings(settings: Mapping[str, Any], names: frozenset[str]) -> None:
    """Refuse settings whose names belong to parts of the body that only the library writes.

    Args:
        settings: Settings of a request.
        names: The names of those parts.

    Raises:
        ConfigurationError: One of them is set.
    """
    for name in sorted(names & settings.keys()):
        raise ConfigurationError(
            f"Model setting {name!r} is written by the library; leave it out, or give it through extra_body."
        )


@cache
def _adapter(form: type[Any]) -> TypeAdapter[Any]:
    """The validator of a form, which takes milliseconds to build."""
    return TypeAdapter(with_config(_OPEN)(form))


def _refuse_what_json_lacks(settings: Mapping[str, Any]) -> None:
    """Refuse numbers that JSON cannot represent: they would be sent as null, the endpoint's default."""
    for name, value in settings.items():
        try:
            is_writable = all(map(isfinite, _floats_in(value)))
        except RecursionError:
            raise ConfigurationError(f"Bad model setting {name!r}: it is nested too deeply.") from None
        if not is_writable:
            raise ConfigurationError(f"Bad model setting {name!r}: it holds a number that is not finite.")


def _floats_in(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif value is not None and not isinstance(value, str | bytes | int):
        for each in value.values() if is_mapping(value) else value if is_sequence(value) else ():
            yield from _floats_in(each)


def _without_empty_stop(settings: dict[str, Any]) -> dict[str, Any]:
    if "stop" not in settings:
        return settings
    stop: str | Sequence[str] = settings["stop"]
    texts = stop if isinstance(stop, str) else [text for text in stop if text]
    if texts:
        return settings | {"stop": texts}
    return {name: value for name, value in settings.items() if name != "stop"}


_DIGITS = 32


def default_cache_key(
    request: ModelRequest, *, model_name: str, capabilities: ModelCapabilities
) -> dict[str, str]:
    """The default `prompt_cache_key` of OpenAI's protocols, the same for all requests of a block to a model.

    Requests with the same key reach the same cache. Compatible servers may refuse the field, so it is sent
    only to models whose capabilities say so.

    Source: "Prompt caching" of the OpenAI platform documentation; keys have at most 64 characters.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.
        capabilities: The capabilities of the model.

    Returns:
        The field of the request's body; none where the settings have one, None included.
    """
    if not request.site or not capabilities.prompt_cache_key or "prompt_cache_key" in request.settings:
        return {}
    return {"prompt_cache_key": _key_of(request.site, model_name)}


@lru_cache(maxsize=1024)
def _key_of(site: str, model_name: str) -> str:
    digest = sha256(f"{site}\0{model_name}".encode(errors="surrogatepass")).hexdigest()
    return f"nighthawk-{digest[:_DIGITS]}"
