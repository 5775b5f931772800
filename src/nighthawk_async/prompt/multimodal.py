"""Multimodal values as prompt content, and as text where only text can travel.

Specification 8.2.2 and 8.3.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard, cast

from ..types.messages import BinaryContent, FileUrl, MultimodalContent, UploadedFile, UserContent
from .objects import readable_fields
from .plain_text import break_delimiters, is_string, kinds_of, resolution_order, single_line, type_name
from .scalars import PLAIN_TYPES

_MULTIMODAL_BASES = frozenset({id(BinaryContent), id(FileUrl), id(UploadedFile)})
_OTHER_TYPES = frozenset({*PLAIN_TYPES, *map(id, (dict, set, frozenset))})
"""Types whose values are neither multimodal nor sequences; by identity, see `scalars`."""

_MAX_HOISTED_ITEMS = 4_096
"""Longer sequences stay previews: scanning them would cost more than any prompt can hold."""

_ADDRESS_CHARACTERS = 2_000
_NAME_CHARACTERS = 200


def is_hoistable(value: object) -> bool:
    """Whether a value travels as inline user content rather than as a preview.

    Args:
        value: Any value. True for a multimodal value, and for a `list` or `tuple` of valid user content of
            which at least one item is multimodal.

    Source: specification 8.2.2.
    """
    return as_user_content(value) is not None


def as_user_content(value: object) -> tuple[UserContent, ...] | None:
    """Return the content of a hoistable value in its original order, or None for any other value.

    Args:
        value: Any value; no code of it runs.
    """
    cls = type(value)
    if id(cls) in _OTHER_TYPES:
        return None
    if _is_multimodal(value):
        return (value,)
    if cls is not list and cls is not tuple:
        return None
    items = cast("Sequence[object]", value)
    if len(items) > _MAX_HOISTED_ITEMS or kinds_of(items) <= _OTHER_TYPES:
        return None
    has_media = False
    content: list[UserContent] = []
    for item in items:
        if _is_multimodal(item):
            has_media = True
            content.append(item)
        elif is_string(item):
            # A slice of a subclass of `str`, taken by `str` itself, is an exact `str`.
            content.append(str.__getitem__(item, slice(None)))
        else:
            return None
    return tuple(content) if has_media else None


def project_to_text(content: tuple[UserContent, ...]) -> str:
    """Project content to text for transports that carry nothing else.

    Args:
        content: The content. Each multimodal item becomes a placeholder that names its type, its media type,
            and its size in bytes or its address.

    Source: specification 8.3, text-projected backends.
    """
    return "".join(
        item if isinstance(item, str) else break_delimiters(_placeholder(item)) for item in content
    )


def _is_multimodal(value: object) -> TypeGuard[MultimodalContent]:
    return any(base in _MULTIMODAL_BASES for base in map(id, resolution_order(type(value))))


def _placeholder(item: MultimodalContent) -> str:
    if isinstance(item, BinaryContent):
        facts = [item.media_type, f"{len(item.data)} bytes", item.identifier]
    elif isinstance(item, FileUrl):
        facts = [item.media_type, single_line(item.url, _ADDRESS_CHARACTERS)]
    else:
        facts = [
            item.media_type,
            f"file {single_line(item.file_id, _NAME_CHARACTERS)} at {item.provider_name}",
        ]
    shown = ", ".join(single_line(fact, _ADDRESS_CHARACTERS) for fact in facts if fact)
    return f"[{type_name(type(item))}: {shown}]"


def hoisted_leaves(value: object, paths: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], object]:
    """The multimodal values to which paths below a value lead.

    Args:
        value: Any value; no code of it runs.
        paths: The names of fields that lead to each.
    """
    leaves: dict[tuple[str, ...], object] = {}
    for path in paths:
        leaf = value
        for segment in path:
            fields = readable_fields(leaf)
            if segment not in fields:
                break
            leaf = fields[segment]
        else:
            if as_user_content(leaf) is not None:
                leaves[path] = leaf
    return leaves


def inline_content(path: str, value: object, content: tuple[UserContent, ...]) -> Iterator[UserContent]:
    """The line that names a multimodal value, and its content.

    Args:
        path: The name of the value.
        value: The value.
        content: Its content.
    """
    yield f"{path}: {type_name(type(value))} ="
    yield from content
