"""Calls of tools of Codex's own, while Codex carries them out."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from .codex_content import text_of_content
from .codex_messages import NativeItem, NativeOutput
from .coding_agent_turns import NativeCall

_NAMES = {"Bash": "shell"}
_FAILED = ("failed", "declined")
_MAX_CHARACTERS = 100_000


def native_name(name: str) -> str:
    """The name of a tool in settings and permissions."""
    return _NAMES.get(name, name)


class NativeRun:
    """A call that Codex carries out, and what is known of its result.

    Args:
        native: The call.
    """

    def __init__(self, native: NativeCall) -> None:
        self.native = native
        self._output: list[str] = []
        self._item: NativeItem | None = None
        self._reported = ""

    @property
    def rewritten(self) -> str | None:
        """The result that its model is to see, if a hook has changed it; None otherwise."""
        shown = None if self.native.shown is None else text_of_content(self.native.shown.content)
        return None if shown == self._reported else shown

    def note(self, message: NativeItem | NativeOutput) -> None:
        """Note output, or the end."""
        if isinstance(message, NativeOutput):
            self._output.append(message.text)
        elif message.has_ended:
            self._item = message
            if message.status in _FAILED:  # the gate may not be asked about it
                self.end()

    def end(self, response: object = None) -> None:
        """Note that it has its result. A command may go on in the background.

        Args:
            response: The result in the words of Codex.
        """
        if self.native.has_ended.is_set() or self.native.allowed is None or self._reported:
            return
        item = self._item
        self._reported = self._text(response)
        is_error = item is not None and item.status in _FAILED
        self.native.finish((self._reported,), is_error=is_error)

    def _text(self, response: object) -> str:
        details: Mapping[str, Any] = {} if self._item is None else self._item.details
        if response:
            text = response if isinstance(response, str) else msgspec.json.encode(response).decode()
            return text[:_MAX_CHARACTERS]
        output = details.get("aggregatedOutput") or "".join(self._output)
        code = details.get("exitCode")
        changes = cast("Sequence[Mapping[str, Any]]", details.get("changes") or ())
        lines = [
            str(output).rstrip()[:_MAX_CHARACTERS],
            *(f"{_kind(each)} {each.get('path')}" for each in changes),
            "" if code is None else f"exit code {code}",
        ]
        return "\n".join(filter(None, lines)) or "done"


def _kind(change: Mapping[str, Any]) -> str:
    kind = change.get("kind")
    return str(cast("Mapping[str, Any]", kind).get("type")) if isinstance(kind, Mapping) else str(kind)
