"""Parts of Chat Completions answers beside text and calls: images, sound, citations, tools of the server.

OpenAI sends sound in `audio`; OpenRouter images in `images`; Perplexity and xAI the addresses of sources in
`citations`, and Perplexity more about them in `search_results`; Groq the calls of its own tools in
`executed_tools`. Everything here may be missing or of another form: no answer is bad for that, unless a
medium itself is broken.

Source: `chat_completion_audio.py` and `chat_completion_message.py` of OpenAI's SDK,
`chat_completion_message.py` of Groq's, and the references of OpenRouter and Perplexity.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from ...types.json import is_json_list, is_json_object
from ...types.messages import Citation
from ...types.model import ModelEvent, TextDelta
from ...types.model_output import CitationAdded, MediaCompleted
from ...types.native_tools import NativeCallFinished, NativeCallStarted
from ...types.usage import Usage
from ..held_media import HeldMedia, decoded_media, media_type_of
from ..json_text import as_object
from ..native_tools import shown_json

CITATION = "url_citation"
"""The type of an annotation that cites what a web search has found."""

EXECUTED = "executed_tools"
"""The field with the calls that the server carried out itself; it takes none back."""

_NAMES = {
    "browser_search": "web_search",
    "code_execution": "code_execution",
    "code_interpreter": "code_execution",
    "function": "code_execution",
    "python": "code_execution",
    "search": "web_search",
}
"""The names of native tools by Groq's words."""

_RESULTS = ("output", "search_results", "code_results", "browser_results")


class _Sound(Struct, kw_only=True, eq=False):
    """The sound of an answer so far."""

    id: str = ""
    expires_at: int | None = None
    pieces: list[bytes] = field(default_factory=list[bytes])


class Additions:
    """The parts of one response beside its text and its calls of the library's tools."""

    def __init__(self) -> None:
        self._media = HeldMedia()
        self._images: list[dict[str, Any]] = []
        self._sound: _Sound | None = None
        self._annotations: list[dict[str, Any]] = []
        self._addresses: list[object] = []
        self._results: list[object] = []
        self._executed: dict[int, dict[str, Any]] = {}
        self._ended: set[int] = set()

    @property
    def has_citations(self) -> bool:
        """Whether an annotation cites what a web search has found."""
        return bool(self._annotations)

    @property
    def uses(self) -> Usage:
        """The uses of the server's own tools."""
        names = [_name(call) for call in self._executed.values()]
        return Usage(web_searches=names.count("web_search"), code_executions=names.count("code_execution"))

    def take_images(self, images: object) -> list[ModelEvent]:
        """Take complete images.

        Args:
            images: A JSON value, usually a list of parts of the type `image_url`.

        Raises:
            ModelProtocolError: An image is not base64.
        """
        events: list[ModelEvent] = []
        for part in _objects(images):
            given: object = part.get("image_url")
            url: object = as_object(given).get("url") if is_json_object(given) else given
            if isinstance(url, str) and url:
                event, held = self._media.take_url(url)
                events.append(event)
                self._images.append({"type": "image_url", "image_url": {"url": held}})
        return events

    def take_sound(self, audio: object) -> list[TextDelta]:
        """Take a piece of the sound, or all of it, and the words that are spoken in it.

        Args:
            audio: A JSON value, usually an object with base64 in `data`.

        Raises:
            ModelProtocolError: The sound is not base64.
        """
        piece = as_object(audio)
        if not piece:
            return []
        sound = self._sound = self._sound or _Sound()
        sound.id = piece["id"] if isinstance(piece.get("id"), str) else sound.id
        if isinstance(expires := piece.get("expires_at"), int):
            sound.expires_at = expires
        if isinstance(data := piece.get("data"), str) and data:
            sound.pieces.append(decoded_media(data))
        words = piece.get("transcript")
        return [TextDelta(text=words)] if isinstance(words, str) and words else []

    def take_annotations(self, annotations: object) -> None:
        """Take annotations; servers may repeat them.

        Args:
            annotations: A JSON value, usually a list of objects.
        """
        for each in _objects(annotations):
            if each.get("type") == CITATION and each not in self._annotations:
                self._annotations.append(each)

    def take_sources(self, addresses: object, results: object) -> None:
        """Take the sources of a chunk, which replace those of earlier ones.

        Args:
            addresses: A JSON value, usually a list of addresses.
            results: A JSON value, usually a list of objects.
        """
        if is_json_list(addresses) and addresses:
            self._addresses = addresses
        if is_json_list(results) and results:
            self._results = results

    def take_executed(self, calls: object) -> list[ModelEvent]:
        """Take calls that the server carried out itself; a stream has them when they begin and when they end.

        Args:
            calls: A JSON value, usually a list of objects.

        Raises:
            ModelProtocolError: An image that code has drawn is not base64.
        """
        events: list[ModelEvent] = []
        for position, call in enumerate(_objects(calls)):
            index = call["index"] if isinstance(call.get("index"), int) else position
            id, is_new = f"{EXECUTED}_{index}", index not in self._executed
            whole = {**self._executed.get(index, {}), **{n: v for n, v in call.items() if v is not None}}
            self._executed[index] = whole
            if is_new:
                events.append(
                    NativeCallStarted(id=id, name=_name(whole), arguments=_words(whole.get("arguments")))
                )
            if index not in self._ended and any(whole.get(name) is not None for name in _RESULTS):
                self._ended.add(index)
                events += self._drawn(whole)
                events.append(_finished(id, whole))
        return events

    def _drawn(self, call: dict[str, Any]) -> Iterator[MediaCompleted]:
        """The images that code has drawn."""
        for result in _objects(call.get("code_results")):
            if isinstance(picture := result.get("png"), str) and picture:
                event, _ = self._media.take(picture, "image/png")
                result["png"] = "…"
                yield event

    def finish(self, text: str) -> list[ModelEvent]:
        """The events that wait for the end of the answer.

        Args:
            text: The text of the answer.
        """
        events: list[ModelEvent] = []
        for index, call in self._executed.items():
            if index not in self._ended:
                events.append(_finished(f"{EXECUTED}_{index}", call))
        self._ended.update(self._executed)
        if self._sound is not None and self._sound.pieces:
            data = b"".join(self._sound.pieces)
            encoded = base64.b64encode(data).decode()
            events.append(self._media.take(encoded, media_type_of(data, "audio/pcm"))[0])
        events += [CitationAdded(citation=each) for each in self._citations(text)]
        return events

    def _citations(self, text: str) -> Iterator[Citation]:
        known: set[str] = set()
        for annotation in self._annotations:
            citation = _annotated(annotation, text)
            known.add(citation.url)
            yield citation
        for result in _objects(self._results):
            if (url := _words(result.get("url"))) not in known:
                known.add(url)
                title, snippet = _words(result.get("title")), _words(result.get("snippet"))
                yield Citation(url=url, title=title, cited_text=snippet)
        for address in self._addresses:
            if isinstance(address, str) and address not in known:
                known.add(address)
                yield Citation(url=address)

    def returned(self) -> dict[str, Any]:
        """The fields of the message that hold them, in the server's form."""
        fields: dict[str, Any] = {}
        if self._images:
            fields["images"] = self._images
        if self._sound is not None and self._sound.id:
            expires = {} if self._sound.expires_at is None else {"expires_at": self._sound.expires_at}
            fields["audio"] = {"id": self._sound.id, **expires}
        if self._executed:
            fields[EXECUTED] = list(self._executed.values())
        return fields


def calls_in(items: Iterable[Mapping[str, Any]]) -> list[ModelEvent]:
    """The calls that a server carried out itself, and their results.

    Args:
        items: The message in the server's form.
    """
    additions = Additions()
    events: list[ModelEvent] = []
    for item in items:
        events += additions.take_executed(item.get(EXECUTED))
    return [*events, *additions.finish("")]


def _annotated(annotation: Mapping[str, Any], text: str) -> Citation:
    """The citation of an annotation, whose fields are below its type, or beside it."""
    form = as_object(annotation.get(CITATION)) or annotation
    start, end = place_in(text, form.get("start_index"), form.get("end_index"))
    return Citation(
        url=_words(form.get("url")),
        title=_words(form.get("title")),
        cited_text=_words(form.get("content")),
        text="" if start is None else text[start:end],
        start=start,
        end=end,
    )


def place_in(text: str, start: object, end: object) -> tuple[int | None, int | None]:
    """A place in a text; None for both bounds if there is no such place.

    Args:
        text: The text.
        start: The first bound, a JSON value.
        end: The second one.
    """
    if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text):
        return start, end
    return None, None


def _finished(id: str, call: Mapping[str, Any]) -> NativeCallFinished:
    results = [call[name] for name in _RESULTS if call.get(name)]
    return NativeCallFinished(
        id=id,
        name=_name(call),
        arguments=_words(call.get("arguments")),
        result=shown_json(results[0] if results else None),
    )


def _name(call: Mapping[str, Any]) -> str:
    kind = _words(call.get("type")) or "native_tool"
    return _NAMES.get(kind, kind)


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: object) -> list[dict[str, Any]]:
    entries = value if is_json_list(value) else []
    return [as_object(each) for each in entries if as_object(each)]
