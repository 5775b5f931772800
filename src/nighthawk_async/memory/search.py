"""Recall: the current records of a namespace, in the order of their scores. In the thread of the store."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import structs

from ..journal.database import Database
from .log import LogRow, Space, find_space, pieces, rows_of
from .orders import RecallOrder, utc
from .ranking import Posting, Score, hybrid_scores, lexical_scores, semantic_scores, word_scores
from .records import MemoryRecord, RecalledRecord
from .vectors import read_vectors
from .words import folded, words_of

_MOST_WORDS = 100
"""The number of different words of a query that count."""


def recall(
    database: Database,
    namespace: str,
    order: RecallOrder,
    at: float,
    *,
    weights: tuple[float, float] = (1.0, 0.0),
    hint: str = "",
    query_vector: Sequence[float] = (),
) -> list[RecalledRecord]:
    """Return the records with the greatest scores; of equal ones the later, then by id.

    Args:
        database: The database.
        namespace: The namespace.
        order: The query.
        at: The present time, in seconds since 1970.
        weights: The weights of the lexical and the semantic score of a hybrid query.
        hint: The name of the embedding, for semantic and hybrid queries.
        query_vector: The vector of the query.
    """
    space = find_space(database, namespace)
    if space is None:
        return []
    scores = _scores(database, space, order, weights, hint, query_vector)
    chosen = _restricted(database, space, order, scores)
    recalled: list[RecalledRecord] = []
    for row in _ordered(database, space, chosen):
        if _is_recalled(row.record, order, at):
            score = chosen[row.seq]
            fields = structs.asdict(row.record)
            recalled.append(RecalledRecord(**fields, score=score.total, parts=score.parts))
            if len(recalled) == order.k:
                break
    return recalled


def _scores(
    database: Database,
    space: Space,
    order: RecallOrder,
    weights: tuple[float, float],
    hint: str,
    query_vector: Sequence[float],
) -> Mapping[int, Score]:
    if not order.query.strip():
        return dict.fromkeys(_all_current(database, space), Score(0.0, {}))
    lexical = {} if order.mode == "semantic" else _lexical(database, space, order.query)
    if order.mode == "lexical":
        return lexical
    semantic = semantic_scores(query_vector, read_vectors(database, space, hint))
    return semantic if order.mode == "semantic" else hybrid_scores(lexical, semantic, weights)


def _lexical(database: Database, space: Space, query: str) -> dict[int, Score]:
    words = list(dict.fromkeys(words_of(query)))[:_MOST_WORDS]
    postings = [_postings(database, space, space.terms.word(word)) for word in words]
    same_key = [each.seq for each in _postings(database, space, space.terms.key(query))]
    tags: Counter[int] = Counter()
    for name in dict.fromkeys((folded(query), *words)):
        tags.update(each.seq for each in _postings(database, space, space.terms.tag(name)))
    return lexical_scores(word_scores(postings, space.records, space.words), same_key, tags)


def _postings(database: Database, space: Space, term: int) -> list[Posting]:
    rows = database.query(
        "SELECT seq, count, words FROM memory_terms WHERE space = ? AND term = ? ORDER BY seq",
        *(space.number, term),
    )
    return [Posting(*row) for row in rows]


def _restricted(
    database: Database, space: Space, order: RecallOrder, scores: Mapping[int, Score]
) -> Mapping[int, Score]:
    """Leave out what has not all of the tags, or another kind."""
    terms = [*map(space.terms.tag, order.tags), *([space.terms.kind(order.kind)] if order.kind else [])]
    for term in terms:
        having = {each.seq for each in _postings(database, space, term)}
        scores = {seq: score for seq, score in scores.items() if seq in having}
    return scores


def _ordered(database: Database, space: Space, scores: Mapping[int, Score]) -> Iterator[LogRow]:
    ranked = sorted(scores, key=lambda seq: (-scores[seq].total, -seq))
    for _, same in groupby(ranked, key=lambda seq: scores[seq].total):
        for piece in pieces(_by_time(database, space, list(same))):
            yield from rows_of(database, space, piece)


def _by_time(database: Database, space: Space, seqs: Sequence[int]) -> Sequence[int]:
    """Sort records with the same score: the later first, then by id."""
    if len(seqs) == 1:
        return seqs
    rows: list[tuple[float, str, int]] = []
    for piece in pieces(seqs):
        places = ", ".join("?" * len(piece))
        rows += [
            (-at, record_id, seq)
            for seq, at, record_id in database.query(
                f"SELECT seq, at, record_id FROM memory_log WHERE space = ? AND seq IN ({places})",
                *(space.number, *piece),
            )
        ]
    return [seq for _, _, seq in sorted(rows)]


def _all_current(database: Database, space: Space) -> list[int]:
    rows = database.query("SELECT seq FROM memory_entries WHERE space = ? AND is_current = 1", space.number)
    return [seq for (seq,) in rows]


def _is_recalled(record: MemoryRecord, order: RecallOrder, at: float) -> bool:
    tags = set(map(folded, record.tags))
    return (
        is_valid(record, at)
        and order.kind in ("", record.kind)
        and all(folded(tag) in tags for tag in order.tags)
        and (
            order.min_confidence is None
            or (record.confidence is not None and record.confidence >= order.min_confidence)
        )
    )


def is_valid(record: MemoryRecord, at: float) -> bool:
    """Whether a record is valid at a time, in seconds since 1970."""
    return record.valid_until is None or utc(at) < record.valid_until
