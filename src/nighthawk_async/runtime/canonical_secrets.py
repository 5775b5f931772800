"""Canonical forms of secrets: digests that are made to be slow, so that short secrets cannot be guessed fast.

A digest of arguments is stored, and a number of four digits, say, would be found from a fast one at once.
"""

import hashlib
from functools import lru_cache
from typing import Any, cast

from pydantic import SecretBytes, SecretStr

from .canonical_leaves import sized
from .canonical_names import type_name
from .canonical_writer import FormWriter, unstable_form

_SALT = b"nighthawk_async secret"
_COST = 1 << 14
"""The cost of a guess: 16 MiB of memory, and some 40 ms."""

_NAMES = frozenset({"pydantic.types._SecretBase", "pydantic.types._SecretField"})


def is_secret(kind: type[Any]) -> bool:
    """Whether a class holds a secret."""
    return issubclass(kind, SecretStr | SecretBytes) or any(
        type_name(each) in _NAMES for each in kind.__mro__
    )


def secret_form(writer: FormWriter, value: Any) -> bytes:
    """The form of a secret. The digest of the text as such is kept nowhere but in memory."""
    if not hasattr(hashlib, "scrypt"):  # in a browser
        return unstable_form(writer, value)
    kind = type_name(cast("type[Any]", type(value))).encode()
    content = writer.form(object.__getattribute__(value, "_secret_value"))
    return sized(b"#", kind + _slow_digest(hashlib.sha256(sized(b"#", kind) + content).digest()))


@lru_cache(maxsize=256)
def _slow_digest(digest: bytes) -> bytes:
    return hashlib.scrypt(digest, salt=_SALT, n=_COST, r=8, p=1, dklen=16)
