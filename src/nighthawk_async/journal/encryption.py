"""Bodies as they are stored: plain, or encrypted with AES-GCM.

A plain body is stored as it is. Other forms begin with a byte that no MessagePack has, and one for the form:

- 0: a plain body that begins with that byte itself.
- 1: an encrypted body: the length of the key's id, the id, the nonce, the ciphertext with its tag.
- 2: the digest of a body in the table of blobs, and an empty encrypted body where there is a key.

An encrypted body is bound to its context (for records: the run, the number, the place and the kind), so it
cannot be read anywhere else.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ..errors import ConfigurationError
from .errors import JournalKeyError, JournalStoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Key: TypeAlias = bytes | str
"""A key, or the name of an environment variable that has it in Base64."""

BLOB_MARK = b"\xc1\x02"
DIGEST_BYTES = 32
_MARK = b"\xc1"
_PLAIN = b"\xc1\x00"
_ENCRYPTED = b"\xc1\x01"
_NONCE_BYTES = 12
_KEY_BYTES = 32

_encode = msgspec.msgpack.Encoder().encode


class BodyCodec:
    """Writes bodies for a database, and reads them.

    Args:
        keys: The keys by id; empty for plain bodies.
        active_key: The id of the key that new bodies are encrypted with; empty for none.

    Raises:
        ConfigurationError: The extra `encryption` is not installed.
    """

    def __init__(self, keys: Mapping[str, bytes] | None = None, active_key: str = "") -> None:
        self.active_key = active_key
        self.key_ids = frozenset(keys or ())
        self._ciphers = {key_id: _cipher(key) for key_id, key in (keys or {}).items()}
        self.proofs = {key_id: _derived(key, b"proof") for key_id, key in (keys or {}).items()}
        """A text for each key that only the same key gives, and that gives nothing of it away."""
        self._digest_key = _derived(keys[active_key], b"digests") if keys else b""

    def seal(self, body: bytes, *context: object) -> bytes:
        """Return a body as it is stored.

        Args:
            body: The body.
            context: The table, and what identifies the row in it: texts, numbers and bytes.
        """
        if not self.active_key:
            return _PLAIN + body if body.startswith(_MARK) else body
        key_id, nonce = self.active_key.encode(), os.urandom(_NONCE_BYTES)
        text = self._ciphers[self.active_key].encrypt(nonce, body, _encode(context))
        return b"".join((_ENCRYPTED, bytes([len(key_id)]), key_id, nonce, text))

    def unseal(self, stored: bytes, *context: object) -> bytes:
        """Return the body that `seal` was given with the same context.

        Raises:
            JournalKeyError: Its key is missing or another one, or it was written in another context.
        """
        if not stored.startswith(_MARK):
            return stored
        if stored.startswith(_PLAIN):
            return stored[len(_PLAIN) :]
        key_id, start = _key_id(stored)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise JournalKeyError(
                f"the journal is encrypted with the key {key_id!r}, which is missing: open it with "
                f"keys={{{key_id!r}: …}}.",
                key_id=key_id,
            )
        from cryptography.exceptions import InvalidTag

        nonce = stored[start : start + _NONCE_BYTES]
        try:
            return cipher.decrypt(nonce, stored[start + _NONCE_BYTES :], _encode(context))
        except (InvalidTag, ValueError):
            raise JournalKeyError(
                f"a body cannot be decrypted with the key {key_id!r} ({', '.join(map(str, context[:3]))}): "
                "it was encrypted with another key of that name, or was changed or moved.",
                key_id=key_id,
            ) from None

    def digest(self, body: bytes) -> bytes:
        """The name of a body among the blobs; with a key, nobody else can compute it from the content."""
        if self.active_key:
            return hmac.digest(self._digest_key, body, "sha256")
        return hashlib.sha256(body).digest()


def read_codec(keys: Mapping[str, Key] | None, active_key: str | None) -> BodyCodec:
    """Make the codec for the keys of `open`.

    Raises:
        ConfigurationError: The keys are none, or the extra `encryption` is not installed.
    """
    if not keys:
        if active_key is not None:
            raise ConfigurationError("active_key is the id of one of keys, and there are none")
        return BodyCodec()
    for key_id in keys:
        if not 0 < len(key_id.encode()) < 256:
            raise ConfigurationError(f"the id of a key has 1 to 255 bytes; {key_id!r} has not")
    if active_key is None and len(keys) > 1:
        raise ConfigurationError("keys has several keys: name the one for new bodies with active_key")
    active = next(iter(keys)) if active_key is None else active_key
    if active not in keys:
        raise ConfigurationError(f"active_key is {active!r}, and keys has only {', '.join(map(repr, keys))}")
    found = {key_id: read_key(key, f"the key {key_id!r}") for key_id, key in keys.items()}
    for key_id, key in found.items():
        if len(key) != _KEY_BYTES:
            raise ConfigurationError(f"the key {key_id!r} has {len(key)} bytes; a key has {_KEY_BYTES}")
    return BodyCodec(found, active)


def read_key(key: Key, name: str) -> bytes:
    """The bytes of a key.

    Args:
        key: The key, or the name of its environment variable.
        name: Its name, for errors.

    Raises:
        ConfigurationError: The variable is not set, or is no Base64.
    """
    if not isinstance(key, str):
        return key
    text = os.environ.get(key)
    if not text:
        raise ConfigurationError(f"{name}: the environment variable {key} is not set")
    return decode_key(text, f"{name}: the environment variable {key}")


def decode_key(text: str, name: str) -> bytes:
    """The bytes of a key in Base64.

    Raises:
        ConfigurationError: It is no Base64.
    """
    try:
        return base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raise ConfigurationError(f"{name} is no Base64") from None


def _key_id(stored: bytes) -> tuple[str, int]:
    """The id of the key of an encrypted body, and the index of what comes after it."""
    if not stored.startswith(_ENCRYPTED):
        raise JournalStoreError("a body in the journal is damaged, or of a newer version.")
    start = len(_ENCRYPTED) + 1
    end = start + stored[start - 1] if len(stored) >= start else start
    return stored[start:end].decode(errors="replace"), end


def _derived(key: bytes, purpose: bytes) -> bytes:
    """A key for another purpose, which gives nothing of the key away."""
    return hmac.digest(key, b"nighthawk-async journal " + purpose, "sha256")


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ConfigurationError(
            "An encrypted journal needs the extra 'encryption'. Install it with: "
            f"pip install 'nighthawk-async[encryption]' ({error})"
        ) from None
    return AESGCM(_derived(key, b"bodies"))
