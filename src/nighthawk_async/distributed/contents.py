"""Contents of calls in the program: equal large ones are held once, however many calls wait with them."""

from collections.abc import Callable
from weakref import WeakValueDictionary

from .crossing import LARGE_BYTES, digest_of


class HeldContent:
    """An encoded argument, or another content of a call.

    Args:
        body: The content.
        digest: Its digest, by which workers keep it; empty for one that is sent with each call.
    """

    __slots__ = ("__weakref__", "body", "digest")

    def __init__(self, body: bytes, digest: bytes = b"") -> None:
        self.body = body
        self.digest = digest


class HeldContents:
    """The contents of the calls of a placement."""

    def __init__(self) -> None:
        self._large: WeakValueDictionary[bytes, HeldContent] = WeakValueDictionary()
        self._last: tuple[object, HeldContent] | None = None

    def hold(self, body: bytes) -> HeldContent:
        """Return a content; for a large one, the one that is held already, if there is an equal one."""
        if len(body) < LARGE_BYTES:
            return HeldContent(body)
        digest = digest_of(body)
        held = self._large.get(digest)
        if held is None:
            held = self._large[digest] = HeldContent(body, digest)
        return held

    def hold_value(self, value: object, encode: Callable[[], bytes]) -> HeldContent:
        """Return the content of a value. Large texts and bytes that several calls share are encoded once.

        Args:
            value: The value.
            encode: Encodes it.
        """
        if not isinstance(value, bytes | str) or len(value) < LARGE_BYTES:
            return self.hold(encode())  # it may change until the next call
        if self._last is None or self._last[0] is not value:
            self._last = (value, self.hold(encode()))
        return self._last[1]
