"""Results of Claude Code's own tools: as hooks and observers see them, and as hooks replace them. Pure."""

from typing import Any, cast

from ..types.messages import UserContent
from ..wire.media import describe_media
from .claude_code_lines import encode

_TEXT_FIELDS = ("content", "result", "output")
"""The fields of which one holds the text, in the results of most tools."""


def native_content(output: object) -> tuple[UserContent, ...]:
    """Return the result of a native tool as content: its text where that is known, else its JSON.

    Args:
        output: The result, as Claude Code gives it to hooks.
    """
    return (_text_of(output),)


def rewritten_output(output: object, content: tuple[UserContent, ...]) -> object | None:
    """Return the result of a native tool with another text; None if the tool has no place for it.

    Args:
        output: The result, as Claude Code gave it to hooks.
        content: The content that replaces it.
    """
    text = "\n".join(item if isinstance(item, str) else f"[{describe_media(item)}]" for item in content)
    if isinstance(output, str):
        return text
    if not isinstance(output, dict):
        return None
    fields = cast("dict[str, Any]", output)
    if isinstance(fields.get("stdout"), str):
        return {**fields, "stdout": text, "stderr": ""}
    file: object = fields.get("file")
    if isinstance(file, dict) and isinstance(cast("dict[str, Any]", file).get("content"), str):
        lines = text.count("\n") + 1
        counts = {"numLines": lines, "startLine": 1, "totalLines": lines}
        return {**fields, "file": {**cast("dict[str, Any]", file), "content": text, **counts}}
    field = next((name for name in _TEXT_FIELDS if isinstance(fields.get(name), str)), None)
    return None if field is None else {**fields, field: text}


def _text_of(output: object) -> str:
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        fields = cast("dict[str, Any]", output)
        if isinstance(fields.get("stdout"), str):
            return "\n".join(filter(None, (fields["stdout"], str(fields.get("stderr") or ""))))
        file: object = fields.get("file")
        if isinstance(file, dict) and isinstance(cast("dict[str, Any]", file).get("content"), str):
            return cast("dict[str, Any]", file)["content"]
        for name in _TEXT_FIELDS:
            if isinstance(fields.get(name), str):
                return fields[name]
    return "" if output is None else encode(output).decode()
