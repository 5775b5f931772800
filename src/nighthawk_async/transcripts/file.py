"""The file of a transcript: JSON of a version, with media as base64.

Secrets are those of recordings: credentials of providers in environment variables, and texts that look like a
key. Prompts and tool results hide values with secret names already.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from typing_extensions import TypedDict

from ..errors import TranscriptError
from ..recording.redaction import Redactor
from ..types.json import is_json_object, is_mapping
from ..types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    Citation,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    Message,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
    VideoUrl,
)
from ..types.outcomes import OutcomeKind
from ..types.usage import Usage

_VERSION = 1

_URLS: Mapping[str, type[FileUrl]] = {
    "file": FileUrl,
    "image": ImageUrl,
    "audio": AudioUrl,
    "video": VideoUrl,
    "document": DocumentUrl,
}


class _Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file."""


class _Bytes(_Form, frozen=True, tag_field="type", tag="bytes"):
    data: bytes
    media_type: str
    identifier: str | None = None


class _Url(_Form, frozen=True, tag_field="type", tag="url"):
    kind: Literal["file", "image", "audio", "video", "document"]
    url: str
    media_type: str | None = None


class _Uploaded(_Form, frozen=True, tag_field="type", tag="uploaded"):
    file_id: str
    provider_name: str
    media_type: str | None = None


_Content = tuple[str | _Bytes | _Url | _Uploaded, ...]


class _User(_Form, frozen=True, tag_field="role", tag="user"):
    content: _Content


class _Assistant(_Form, frozen=True, tag_field="role", tag="assistant"):
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    media: _Content = ()
    citations: tuple[Citation, ...] = ()
    provider_content: ProviderContent | None = None


class _Result(_Form, frozen=True):
    call_id: str
    name: str
    content: _Content
    is_error: bool = False


class _Results(_Form, frozen=True, tag_field="role", tag="tool_results"):
    results: tuple[_Result, ...]


class _File(_Form, frozen=True):
    transcript_version: int
    step_id: str
    model: str
    system_prompt: str
    messages: tuple[_User | _Assistant | _Results, ...]
    tools: tuple[str, ...] = ()
    usage: Usage = Usage()
    outcome: OutcomeKind | None = None
    error: str | None = None


class TranscriptFields(TypedDict):
    """The fields of a `Transcript`."""

    step_id: str
    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    usage: Usage
    outcome: OutcomeKind | None
    error: str | None


def transcript_json(fields: TranscriptFields, *, show_secrets: bool) -> str:
    """Return a transcript as JSON.

    Args:
        fields: Its fields.
        show_secrets: Whether credentials, and texts that look like a key, are kept.
    """
    file = _File(
        transcript_version=_VERSION,
        step_id=fields["step_id"],
        model=fields["model"],
        system_prompt=fields["system_prompt"],
        messages=tuple(map(_form, fields["messages"])),
        tools=fields["tools"],
        usage=fields["usage"],
        outcome=fields["outcome"],
        error=fields["error"],
    )
    content: Any = msgspec.to_builtins(file, builtin_types=(bytes,), enc_hook=_plain)
    if not show_secrets:
        content = Redactor().redact_secrets(content)
    text = json.dumps(content, ensure_ascii=False, indent=1, default=_base64)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, which only escapes can carry
        text = json.dumps(content, indent=1, default=_base64)
    return f"{text}\n"


def read_transcript(text: str | bytes) -> TranscriptFields:
    """Return the fields of the transcript that a text holds.

    Args:
        text: The text of `transcript_json`.

    Raises:
        TranscriptError: It is no transcript of this version; the message names the place of the fault.
    """
    try:
        content: object = json.loads(text)
        version = _version_of(content)
        if version != _VERSION:
            raise TranscriptError(
                f"the text is no transcript of this version: its transcript_version is {version!r}, not "
                f"{_VERSION}"
            )
        file = msgspec.convert(content, _File)
        return TranscriptFields(
            step_id=file.step_id,
            model=file.model,
            system_prompt=file.system_prompt,
            messages=tuple(map(_message, file.messages)),
            tools=file.tools,
            usage=file.usage,
            outcome=file.outcome,
            error=file.error,
        )
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise TranscriptError(f"the text is no transcript: {error}") from error


def _version_of(content: object) -> object:
    return content.get("transcript_version") if is_json_object(content) else None


def _form(message: Message) -> _User | _Assistant | _Results:
    match message:
        case UserMessage():
            return _User(content=_content_form(message.content))
        case AssistantMessage():
            return _Assistant(
                text=message.text,
                reasoning=message.reasoning,
                tool_calls=message.tool_calls,
                media=_content_form(message.media),
                citations=message.citations,
                provider_content=message.provider_content,
            )
        case ToolResultsMessage():
            results = (
                _Result(
                    call_id=each.call_id,
                    name=each.name,
                    content=_content_form(each.content),
                    is_error=each.is_error,
                )
                for each in message.results
            )
            return _Results(results=tuple(results))


def _content_form(content: tuple[UserContent, ...]) -> _Content:
    return tuple(map(_item_form, content))


def _item_form(item: UserContent) -> str | _Bytes | _Url | _Uploaded:
    match item:
        case str():
            return item
        case BinaryContent():
            return _Bytes(data=item.data, media_type=item.media_type, identifier=item.identifier)
        case UploadedFile():
            return _Uploaded(
                file_id=item.file_id, provider_name=item.provider_name, media_type=item.media_type
            )
        case FileUrl():
            kind = next((name for name, each in _URLS.items() if type(item) is each), "file")
            return _Url(kind=cast("Any", kind), url=item.url, media_type=item.media_type)


def _message(form: _User | _Assistant | _Results) -> Message:
    match form:
        case _User():
            return UserMessage(content=_content(form.content))
        case _Assistant():
            return AssistantMessage(
                text=form.text,
                reasoning=form.reasoning,
                tool_calls=form.tool_calls,
                media=tuple(
                    item for item in _content(form.media) if isinstance(item, BinaryContent | FileUrl)
                ),
                citations=form.citations,
                provider_content=form.provider_content,
            )
        case _Results():
            results = (
                ToolResult(
                    call_id=each.call_id,
                    name=each.name,
                    content=_content(each.content),
                    is_error=each.is_error,
                )
                for each in form.results
            )
            return ToolResultsMessage(results=tuple(results))


def _content(forms: _Content) -> tuple[UserContent, ...]:
    return tuple(map(_item, forms))


def _item(form: str | _Bytes | _Url | _Uploaded) -> UserContent:
    match form:
        case str():
            return form
        case _Bytes():
            return BinaryContent(data=form.data, media_type=form.media_type, identifier=form.identifier)
        case _Uploaded():
            return UploadedFile(
                file_id=form.file_id, provider_name=form.provider_name, media_type=form.media_type
            )
        case _Url():
            return _URLS[form.kind](url=form.url, media_type=form.media_type)


def _plain(value: object) -> object:
    """The data of a mapping that is no dictionary, as provider content may hold."""
    if is_mapping(value):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is no data of a message")


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no data of a message")
