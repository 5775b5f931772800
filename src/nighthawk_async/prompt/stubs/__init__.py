"""Types as stubs of Python, for the model that has to make values of them. Floor 1: pure.

`TypeNames` says how types are written in one block, `written_type` writes an annotation, and `stub_of` gives
the stubs of the types that an annotation mentions.
"""

from ..annotations import written_type
from ..type_names import TypeNames
from .stub import stub_of

__all__ = ["TypeNames", "stub_of", "written_type"]
