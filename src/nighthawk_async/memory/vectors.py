"""The vectors of texts, by the name of the embedding and the content. In the thread of the store."""

import math
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..journal.database import Database
from ..journal.key_table import check_keys
from .errors import EmbeddingError
from .log import Space, find_space, rows_of
from .packing import packed, unpacked
from .ranking import unit_vector

Embed: TypeAlias = Callable[[list[str]], Awaitable[Sequence[Sequence[float]]]]
"""Returns a vector for each of some texts."""

MOST_NUMBERS = 8_192


def read_vectors(database: Database, space: Space, hint: str) -> Mapping[int, "array[Any]"]:
    """Return the vectors of the current records that have one."""
    rows = database.query(
        "SELECT e.seq, e.content, v.body FROM memory_entries e JOIN memory_vectors v "
        "ON v.space = e.space AND v.content = e.content "
        "WHERE e.space = ? AND e.is_current = 1 AND v.hint = ?",
        *(space.number, hint),
    )
    return {seq: _vector(database, space, hint, content, body) for seq, content, body in rows}


def find_vector(database: Database, namespace: str, hint: str, text: str) -> Sequence[float] | None:
    """Return the vector of a text; None if it has none."""
    space = find_space(database, namespace)
    if space is None:
        return None
    content = space.terms.content(text)
    rows = database.query(
        "SELECT body FROM memory_vectors WHERE space = ? AND hint = ? AND content = ?",
        *(space.number, hint, content),
    )
    return _vector(database, space, hint, content, rows[0][0]) if rows else None


def texts_without(database: Database, namespace: str, hint: str, most: int) -> list[str]:
    """Return different texts of current records that have no vector.

    Args:
        database: The database.
        namespace: The namespace.
        hint: The name of the embedding.
        most: The most texts.
    """
    space = find_space(database, namespace)
    if space is None:
        return []
    rows = database.query(
        "SELECT MIN(e.seq) FROM memory_entries e WHERE e.space = ? AND e.is_current = 1 AND NOT EXISTS ("
        "SELECT 1 FROM memory_vectors v WHERE v.space = e.space AND v.hint = ? AND v.content = e.content) "
        f"GROUP BY e.content ORDER BY 1 LIMIT {most}",
        *(space.number, hint),
    )
    return [row.record.text for row in rows_of(database, space, [seq for (seq,) in rows])]


def keep_vectors(
    database: Database,
    namespace: str,
    hint: str,
    vectors: Mapping[str, Sequence[float]],
    length: int | None,
    *,
    is_query: bool,
) -> None:
    """Keep vectors by their texts.

    Args:
        database: The database.
        namespace: The namespace.
        hint: The name of the embedding.
        vectors: The vectors.
        length: The length that the program has named; None for that of the first one.
        is_query: Whether they are those of queries.

    Raises:
        EmbeddingError: A vector has another length than the others.
    """
    with database.transaction():
        check_keys(database)
        space = find_space(database, namespace, locks=True)
        if space is None:
            return
        known = database.query(
            "SELECT content, body FROM memory_vectors WHERE space = ? AND hint = ? LIMIT 1",
            space.number,
            hint,
        )
        if known:
            length = len(_vector(database, space, hint, *known[0]))
        for text, vector in vectors.items():
            length = length or len(vector)
            if len(vector) != length:
                raise EmbeddingError(
                    f"the vector of {_shown(text)} has {len(vector)} numbers, and those of the embedding "
                    f"{hint!r} in {namespace!r} have {length}: give an embedding with other vectors another "
                    "embed_hint"
                )
            content = space.terms.content(text)
            body = database.codec.seal(
                packed("f", unit_vector(vector)), "memory_vectors", space.number, hint, content
            )
            database.change(
                "INSERT INTO memory_vectors (space, hint, content, is_query, body) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                *(space.number, hint, content, int(is_query), body),
            )


def checked_vectors(texts: Sequence[str], given: Any, hint: str) -> dict[str, list[float]]:
    """Check what an embedding has returned for some texts.

    Raises:
        EmbeddingError: It is not a vector of finite numbers for each text.
    """
    try:
        vectors = [[float(number) for number in vector] for vector in given]
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"the embedding {hint!r} has returned no list of vectors, but {type(given).__name__}: {error}"
        ) from None
    if len(vectors) != len(texts):
        raise EmbeddingError(
            f"the embedding {hint!r} has returned {len(vectors)} vectors for {len(texts)} texts"
        )
    for text, vector in zip(texts, vectors, strict=True):
        if not 0 < len(vector) <= MOST_NUMBERS or not all(map(math.isfinite, vector)):
            raise EmbeddingError(
                f"the vector of {_shown(text)} by the embedding {hint!r} has {len(vector)} numbers; it needs "
                f"1 to {MOST_NUMBERS:,}, all finite"
            )
    return dict(zip(texts, vectors, strict=True))


def _vector(database: Database, space: Space, hint: str, content: bytes, body: bytes) -> "array[Any]":
    return unpacked("f", database.codec.unseal(body, "memory_vectors", space.number, hint, content))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
