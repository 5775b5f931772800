"""The file of a cassette: YAML that people can read and compare.

Texts of several lines are written as blocks. Contents that several exchanges share (prompts, tools, earlier
messages) are written once, at the first use, and referenced by a YAML alias named by their digest, so that a
change in one place leaves the rest of the file unchanged.

Errors of cassettes are raised out of natural functions: no model sees them, and no request is retried.
"""

import hashlib
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from ..kernel.commit import InterceptionError
from ..pickling import set_public_module
from .exchange import RecordedExchange, replay_consumed, replay_error, replay_events
from .redaction import encoded
from .requests import digest_of


class CassetteError(InterceptionError):
    """A cassette cannot be used: its file is malformed, in use, or would be overwritten."""


class CassetteMissError(CassetteError):
    """No recording fits a request, and the cassette does not record."""

    _without_content = "no recording fits a request, and the cassette does not record"


_VERSION = 1
_HEADING = "# Exchanges with models, recorded by nighthawk_async.testing.cassette.\n"
_MIN_SHARED_CHARACTERS = 80
_SHARED_FIELDS = ("system_prompt", "tools", "response_format")
# YAML treats these as line breaks and reads them back as other characters.
_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029]")


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    exchanges: tuple[RecordedExchange, ...] = ()


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and names anchors by the digest of their content."""

    def ignore_aliases(self, data: Any) -> bool:
        if isinstance(data, str):
            return len(data) < _MIN_SHARED_CHARACTERS
        return super().ignore_aliases(data)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def generate_anchor(self, node: yaml.Node) -> str:
        return f"same-{hashlib.sha256(_outline(node).encode(errors='surrogatepass')).hexdigest()[:12]}"


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _ODD_BREAKS.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)  # pyright: ignore[reportUnknownMemberType]


def dump_value(value: object) -> str:
    """Return JSON data as YAML.

    Args:
        value: The value to write.
    """
    dump = cast("Any", yaml).dump  # some releases of its stubs are not typed completely
    return str(dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100))


def dump_exchanges(exchanges: Sequence[RecordedExchange]) -> str:
    """Return the text of a cassette's file.

    Args:
        exchanges: Its exchanges, in order.
    """
    shared: dict[bytes, Any] = {}
    forms: list[dict[str, Any]] = [msgspec.to_builtins(exchange) for exchange in exchanges]
    for form in forms:
        _share(form["request"], shared)
    return _HEADING + dump_value({"version": _VERSION, "exchanges": forms})


def load_exchanges(text: str, *, path: Path) -> tuple[RecordedExchange, ...]:
    """Read the text of a cassette's file.

    Args:
        text: The text.
        path: The file, for errors.

    Raises:
        CassetteError: It is not a cassette, has another version, or was changed by hand.
    """
    try:
        content: object = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        file = msgspec.convert(content, _File)
        digests = [digest_of(exchange.model, exchange.request) for exchange in file.exchanges]
        for exchange in file.exchanges:
            replay_events(exchange)
            replay_consumed(exchange)
            if exchange.error is not None:
                replay_error(exchange.error)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as error:
        raise CassetteError(f"{path} is no cassette of this version: {error}") from error
    if file.version != _VERSION:
        raise CassetteError(f"{path} is a cassette of version {file.version}; this is version {_VERSION}.")
    for number, (exchange, digest) in enumerate(zip(file.exchanges, digests, strict=True), 1):
        if digest != exchange.digest:
            raise CassetteError(
                f"{path}: the request of exchange {number} is not the one that was recorded. If it was "
                f"changed on purpose, set its digest to {digest!r}; otherwise record it again."
            )
    return file.exchanges


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that no reader sees it half written; create its folder if it is missing.

    Args:
        path: The file.
        text: Its new content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with unfinished.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _share(request: dict[str, Any], shared: dict[bytes, Any]) -> None:
    """Replace equal parts of requests by one object each, which YAML then writes once."""
    for name in _SHARED_FIELDS:
        if name in request:
            request[name] = _one_of(request[name], shared)
    request["messages"] = [_one_of(message, shared) for message in request.get("messages", ())]


def _one_of(value: Any, shared: dict[bytes, Any]) -> Any:
    key = encoded(value)
    return value if len(key) < _MIN_SHARED_CHARACTERS else shared.setdefault(key, value)


def _outline(node: yaml.Node) -> str:
    """Return the content of a node as one text."""
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value)
    if isinstance(node, yaml.MappingNode):
        pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
        return "{" + ",".join(f"{_outline(name)}:{_outline(value)}" for name, value in pairs) + "}"
    items: list[yaml.Node] = node.value
    return "[" + ",".join(map(_outline, items)) + "]"


set_public_module("testing", globals())
