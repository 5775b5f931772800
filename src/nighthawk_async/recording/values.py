"""Values as a cassette holds them: what JSON knows, and digests. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel

__all__ = ["encoded", "plain", "short_hash"]


def encoded(value: object) -> bytes:
    """The one JSON text of what JSON can hold.

    Args:
        value: Texts, numbers, lists and dictionaries.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def plain(value: object) -> Any:
    """The value as text, numbers, lists and dictionaries.

    Args:
        value: Anything that a request or a response may hold.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": short_hash(value)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(exclude_unset=True))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in cast("Mapping[object, object]", value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [plain(each) for each in cast("Iterable[object]", value)]
    return str(value)


def short_hash(content: bytes) -> str:
    """A digest that is long enough to tell contents apart, and short enough to be read.

    Args:
        content: Any bytes.
    """
    return hashlib.sha256(content).hexdigest()[:16]
