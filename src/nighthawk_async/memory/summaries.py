"""Records as a bounded text, without a model."""

from collections.abc import Sequence

from ..prompt.plain_text import single_line
from .records import MemoryRecord, MemorySummary


def summarized(records: Sequence[MemoryRecord], max_characters: int) -> MemorySummary:
    """Return a line for each record, as many as fit into some characters; each gets an equal share."""
    share = max_characters
    lines: list[str] = []
    left = max_characters
    for number, record in enumerate(records):
        share = left // (len(records) - number) - 1
        line = single_line(f"- {record.key}: {record.text}", max(0, share)) if share > 0 else ""
        if not line:
            break
        lines.append(line)
        left -= len(line) + 1
    shown = tuple(records[: len(lines)])
    return MemorySummary(count=len(shown), text="\n".join(lines), records=shown)
