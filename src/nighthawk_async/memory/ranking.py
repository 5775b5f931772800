"""Scores of records for a query: the same on every machine, since nothing depends on a database or an order.

The lexical score is the one of SQLite's FTS5: BM25 with k1 = 1.2 and b = 0.75, over the current records of
the namespace. Scores are rounded, so that the last bits of a logarithm decide nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul

from msgspec import Struct

_K1, _B = 1.2, 0.75
_LEAST_WEIGHT = 1e-6  # of a word that is in more than half of the records
_DIGITS = 12  # of those by words, which are small where a word is frequent
_COSINE_DIGITS = 6  # of vectors of 32 bits
TAG_BOOST = 0.5


class Posting(Struct, frozen=True):
    """A word of a record.

    Args:
        seq: The record.
        count: The number of times that it has the word.
        words: The number of its words.
    """

    seq: int
    count: int
    words: int


class Score(Struct, frozen=True):
    """The score of a record.

    Args:
        total: The score.
        parts: Its parts by name.
    """

    total: float
    parts: Mapping[str, float]


def word_scores(postings: Iterable[Sequence[Posting]], records: int, words: int) -> dict[int, float]:
    """Return the score of each record that has one of some words.

    Args:
        postings: The records that have each of the words.
        records: The number of all current records.
        words: The number of words of all.
    """
    scores: dict[int, float] = {}
    mean = words / records if records else 1.0
    for found in postings:
        weight = math.log((records - len(found) + 0.5) / (len(found) + 0.5))
        weight = weight if weight > 0 else _LEAST_WEIGHT
        for each in found:
            part = (each.count * (_K1 + 1)) / (each.count + _K1 * (1 - _B + _B * each.words / mean))
            scores[each.seq] = scores.get(each.seq, 0.0) + weight * part
    return {seq: round(score, _DIGITS) for seq, score in scores.items()}


def lexical_scores(
    words: Mapping[int, float], same_key: Iterable[int], named_tags: Mapping[int, int]
) -> dict[int, Score]:
    """Return the lexical score of each record that matches.

    Args:
        words: The scores by words.
        same_key: The records whose key is the query: they come before all others.
        named_tags: The number of tags that the query names, by record.
    """
    first = 1.0 + max(words.values(), default=0.0) + TAG_BOOST * max(named_tags.values(), default=0)
    keys = dict.fromkeys(same_key, first)
    scores: dict[int, Score] = {}
    for seq in {**words, **keys, **named_tags}:
        parts = {
            "words": words.get(seq, 0.0),
            "key": keys.get(seq, 0.0),
            "tags": TAG_BOOST * named_tags.get(seq, 0),
        }
        shown = {name: round(part, _DIGITS) for name, part in parts.items() if part}
        scores[seq] = Score(round(sum(parts.values()), _DIGITS), shown)
    return scores


def semantic_scores(query: Sequence[float], vectors: Mapping[int, Sequence[float]]) -> dict[int, Score]:
    """Return the cosine of each record with the query.

    Args:
        query: The vector of the query, of length 1 or 0.
        vectors: Those of the records.
    """
    scores: dict[int, Score] = {}
    for seq, vector in vectors.items():
        cosine = _rounded(math.fsum(map(mul, query, vector)), _COSINE_DIGITS)
        scores[seq] = Score(cosine, {"semantic": cosine})
    return scores


def hybrid_scores(
    lexical: Mapping[int, Score], semantic: Mapping[int, Score], weights: tuple[float, float]
) -> dict[int, Score]:
    """Return the weighted sum of both scores; of the lexical ones, the greatest counts as 1."""
    greatest = max((score.total for score in lexical.values()), default=0.0) or 1.0
    scores: dict[int, Score] = {}
    for seq in {**lexical, **semantic}:
        by_words = lexical[seq].total / greatest if seq in lexical else 0.0
        by_meaning = semantic[seq].total if seq in semantic else 0.0
        total = _rounded(weights[0] * by_words + weights[1] * by_meaning)
        scores[seq] = Score(total, {"lexical": _rounded(by_words), "semantic": by_meaning})
    return scores


def unit_vector(vector: Sequence[float]) -> list[float]:
    """Return a vector of length 1 in the same direction; one of zeros stays as it is."""
    greatest = max(map(abs, vector), default=0.0)
    if not greatest:
        return list(vector)
    scaled = [each / greatest for each in vector]  # whose squares neither vanish nor overflow
    length = math.sqrt(math.fsum(map(mul, scaled, scaled)))
    return [each / length for each in scaled]


def _rounded(number: float, digits: int = _DIGITS) -> float:
    return round(number, digits) + 0.0  # no negative zero
