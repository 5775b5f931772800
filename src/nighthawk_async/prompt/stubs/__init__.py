"""Types as Python stubs, for the model that has to make values of them. Pure.

`TypeNames` has the names of types in one block, `written_type` writes an annotation, `described_type` one
with its constraints, and `stub_of` gives the stubs of the types that an annotation mentions. `types_section`
gives those of all types that a block produces and uses.
"""

from ..comments import described_type
from ..types import TypeNames, written_type
from .fields import fields_by_key
from .stub import TypesSection, stub_of, types_section

__all__ = [
    "TypeNames",
    "TypesSection",
    "described_type",
    "fields_by_key",
    "stub_of",
    "types_section",
    "written_type",
]
