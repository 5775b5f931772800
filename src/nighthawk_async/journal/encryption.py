"""Bodies as they are stored: plain, or encrypted with AES-GCM.

A plain body is stored as it is. Other forms begin with a byte that no MessagePack has, and one for the form:

- 0: a plain body that begins with that byte itself.
- 1: an encrypted body: the length of the key's id, the id, the nonce, the ciphertext with its tag.
- 2: the digest of a body in the table of blobs, and an empty body in one of these forms where there is a key.
- 3: a signed body: the name of the audit key, the code, the body in one of the other forms. The bodies of
  records are not signed: they stand in a chain.

An encrypted body is bound to its context (for records: the run, the number, the place and the kind), so it
cannot be read anywhere else. So is a signed one.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ..errors import ConfigurationError
from .errors import JournalAuditError, JournalKeyError, JournalStoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Key: TypeAlias = bytes | str
"""A key, or the name of an environment variable that has it in Base64."""

BLOB_MARK = b"\xc1\x02"
DIGEST_BYTES = 32
_MARK = b"\xc1"
_PLAIN = b"\xc1\x00"
_ENCRYPTED = b"\xc1\x01"
_SIGNED = b"\xc1\x03"
_KEY_NAME_BYTES = 8
_CODE_BYTES = 32
_CHAINED = ("records", "blobs")
"""The tables whose bodies are not signed: a chain has those of records, and a digest names each blob."""
_NONCE_BYTES = 12
_KEY_BYTES = 32

_encode = msgspec.msgpack.Encoder().encode


class ChangedBodyError(JournalAuditError):
    """A body was changed, or is one of another row."""


class BodyCodec:
    """Writes bodies for a database, and reads them.

    Args:
        keys: The keys by id; empty for plain bodies.
        active_key: The id of the key that new bodies are encrypted with; empty for none.
        audit_key: The key that bodies outside of chains are signed with; None for none.

    Raises:
        ConfigurationError: The extra `encryption` is not installed.
    """

    def __init__(
        self,
        keys: Mapping[str, bytes] | None = None,
        active_key: str = "",
        audit_key: bytes | None = None,
    ) -> None:
        self.active_key = active_key
        self._signing_key = None if audit_key is None else _derived(audit_key, b"signatures")
        self._key_name = b"" if audit_key is None else _derived(audit_key, b"name")[:_KEY_NAME_BYTES]
        self.trusts_others = False
        """Whether bodies are read that are not signed, or with another key: while all are written anew."""
        self.key_ids = frozenset(keys or ())
        self._ciphers = {key_id: _cipher(key) for key_id, key in (keys or {}).items()}
        self.proofs = {key_id: _derived(key, b"proof") for key_id, key in (keys or {}).items()}
        """A text for each key that only the same key gives, and that gives nothing of it away."""
        self._digest_key = _derived(keys[active_key], b"digests") if keys else b""

    def needs_proof(self, context: tuple[object, ...]) -> bool:
        """Whether the reference to a blob is bound to its row."""
        return bool(self.active_key) or self._is_signed(context)

    def seal(self, body: bytes, *context: object, signed: tuple[object, ...] = ()) -> bytes:
        """Return a body as it is stored.

        Args:
            body: The body.
            context: The table, and what identifies the row in it: texts, numbers and bytes.
            signed: More that the body is bound to where it is signed.
        """
        stored = self._encrypted(body, context)
        if self._signing_key is None or not self._is_signed(context):
            return stored
        return b"".join((_SIGNED, self._key_name, self._code(stored, context, signed), stored))

    def _is_signed(self, context: tuple[object, ...]) -> bool:
        return self._signing_key is not None and context[0] not in _CHAINED

    def _code(self, stored: bytes, context: tuple[object, ...], signed: tuple[object, ...]) -> bytes:
        assert self._signing_key is not None
        return hmac.digest(self._signing_key, _encode((context, signed, stored)), "sha256")

    def _checked(self, stored: bytes, context: tuple[object, ...], signed: tuple[object, ...]) -> bytes:
        """Return a body without its code.

        Raises:
            JournalAuditError: It has none of the audit key, or that of another body.
        """
        has_code = stored.startswith(_SIGNED)
        start = len(_SIGNED) + _KEY_NAME_BYTES
        name, code, body = b"", b"", stored
        if has_code:
            name = stored[len(_SIGNED) : start]
            code, body = stored[start : start + _CODE_BYTES], stored[start + _CODE_BYTES :]
        words = ", ".join(str(each) for each in (*context, *signed) if not isinstance(each, bytes))
        if name == self._key_name:
            if name and not hmac.compare_digest(code, self._code(body, context, signed)):
                raise ChangedBodyError(f"a body ({words}) was changed, or is one of another row", run_id="")
        elif not self.trusts_others:
            had = "another audit key" if has_code else "no audit key"
            raise JournalAuditError(
                f"a body ({words}) was written with {had}, or was inserted. Open the journal with the same "
                "audit_key. After an update of the library, stop all programs and use "
                '"nighthawk-async journal reencrypt" once. To change the key, verify the runs with the old '
                "one before.",
                run_id="",
            )
        return body

    def _encrypted(self, body: bytes, context: tuple[object, ...]) -> bytes:
        if not self.active_key:
            return _PLAIN + body if body.startswith(_MARK) else body
        key_id, nonce = self.active_key.encode(), os.urandom(_NONCE_BYTES)
        text = self._ciphers[self.active_key].encrypt(nonce, body, _encode(context))
        return b"".join((_ENCRYPTED, bytes([len(key_id)]), key_id, nonce, text))

    def unseal(self, stored: bytes, *context: object, signed: tuple[object, ...] = ()) -> bytes:
        """Return the body that `seal` was given with the same context.

        Raises:
            JournalAuditError: It was signed with another key or in another context, or was not signed.
            JournalKeyError: Its key is missing or another one, or it was written in another context.
        """
        if context[0] not in _CHAINED:
            stored = self._checked(stored, context, signed)
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


def is_encrypted(stored: bytes) -> bool:
    """Whether a body is stored encrypted."""
    return stored.startswith(_ENCRYPTED)


def read_codec(
    keys: Mapping[str, Key] | None, active_key: str | None, audit_key: bytes | None = None
) -> BodyCodec:
    """Make the codec for the keys of `open`.

    Raises:
        ConfigurationError: The keys are none, or the extra `encryption` is not installed.
    """
    if not keys:
        if active_key is not None:
            raise ConfigurationError("active_key is the id of one of keys, and there are none")
        return BodyCodec(audit_key=audit_key)
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
    return BodyCodec(found, active, audit_key)


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
