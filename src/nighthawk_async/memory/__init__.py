"""Memory: records that outlive runs, recalled by words or by meaning. Floor 5.

    memory = memory.open("memory.db", namespace="support")
    await memory.store("refunds", "Refunds take three days.", tags=["policy"])
    found = await memory.recall("how long does a refund take?")

An append-only log in SQLite or PostgreSQL, with an index of what is current. It bundles no embedding. See the
page "Memory".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .errors import EmbeddingError, MemoryUseError, MemoryValueError
    from .facts import (
        Evidence as Evidence,
        Fact as Fact,
        FactKind as FactKind,
        Facts as Facts,
        FileEvidence,
        ToolEvidence,
        TraceEvidence,
        UserEvidence,
    )
    from .memory import Memory, close, open
    from .records import (
        ErasureReceipt as ErasureReceipt,
        Forgotten as Forgotten,
        MemoryEvent as MemoryEvent,
        MemoryRecord as MemoryRecord,
        MemorySummary as MemorySummary,
        RecalledRecord as RecalledRecord,
        RecallMode as RecallMode,
    )
    from .serving import functions
    from .vectors import Embed as Embed
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "errors": ("EmbeddingError", "MemoryUseError", "MemoryValueError"),
            "facts": (
                "Evidence",
                "Fact",
                "FactKind",
                "Facts",
                "FileEvidence",
                "ToolEvidence",
                "TraceEvidence",
                "UserEvidence",
            ),
            "memory": ("Memory", "close", "open"),
            "records": (
                "ErasureReceipt",
                "Forgotten",
                "MemoryEvent",
                "MemoryRecord",
                "MemorySummary",
                "RecalledRecord",
                "RecallMode",
            ),
            "serving": ("functions",),
            "vectors": ("Embed",),
        },
    )

__all__ = [
    "EmbeddingError",
    "FileEvidence",
    "Memory",
    "MemoryUseError",
    "MemoryValueError",
    "ToolEvidence",
    "TraceEvidence",
    "UserEvidence",
    "close",
    "functions",
    "open",
]
