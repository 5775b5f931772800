"""Lives that found out that their program has changed: which of their records count."""

from collections.abc import Collection, Sequence

from .frames import effect_of_intent, is_stage, withdrawn_place
from .records import DIVERGED, KINDS, Record, read_intent


def records_that_count(records: Sequence[Record], latest: int | None = None) -> Sequence[Record]:
    """Leave out what lives recorded that found out that the program has changed, and did nothing outside.

    The program may then be changed back as if there had been no such life
    (`test_a_life_that_diverged_counts_for_nothing`). It may not if such a life made an effect.

    Effects and questions that were begun in a life that counts, and were ended in such a life, have ended
    (`test_what_such_a_life_has_ended_for_others_has_ended`).

    Args:
        records: The records of a run, in order.
        latest: A life whose records are not left out.

    Returns:
        The same without those of such lives, but for the records that they began and ended.
    """
    diverged = {each.epoch for each in records if each.kind == "life" and each.body == DIVERGED} - {latest}
    if not diverged:
        return records
    withdrawn = {each.place for each in records if each.epoch in diverged and each.kind == "decision"}
    for each in records:
        if each.epoch in diverged and KINDS[each.kind].is_outside:
            if each.kind == "intent" and (
                read_intent(each).is_harmless
                or is_stage(effect_of_intent(each.place))
                or withdrawn_place(each.place) in withdrawn
            ):
                continue
            diverged.discard(each.epoch)
    kept = [each for each in records if each.epoch not in diverged]
    begun = {effect_of_intent(each.place) for each in kept if each.kind == "intent"}
    asked = {each.place for each in kept if each.kind == "question"}
    return [
        each
        for each in records
        if each.epoch not in diverged or each.kind == "life" or _is_end(each, begun, asked)
    ]


def _is_end(record: Record, begun: Collection[str], asked: Collection[str]) -> bool:
    """Whether a record is the end of an effect, or has what people said to a question."""
    if record.kind == "result":
        return record.place in begun and not is_stage(record.place)
    is_said = record.place in asked or record.place.rpartition("/")[0] in asked
    return record.kind == "value" and is_said
