"""Errors of memories. A block can handle them, and a model sees their text.

NighthawkError
└── MemoryUseError              an argument cannot be used: a name, a key, a number, a predicate
    ├── MemoryValueError            a value cannot be stored faithfully, or has not the type that is asked for
    └── EmbeddingError              there is no vector, or one that does not fit the others

What cannot be opened is a `ConfigurationError`; a store that cannot be read or written, a
`JournalStoreError`.
"""

from ..errors import NighthawkError
from ..pickling import set_public_module


class MemoryUseError(NighthawkError):
    """An argument of a memory cannot be used. Nothing was changed."""


class MemoryValueError(MemoryUseError):
    """A value cannot be stored faithfully, or is none of the type that is asked for."""


class EmbeddingError(MemoryUseError):
    """There is no vector for a text, or one that does not fit the others."""


set_public_module("memory", globals())
