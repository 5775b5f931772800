"""JSON as Python values."""

from typing import TypeAlias, Union

JsonableValue: TypeAlias = Union[  # noqa: UP007  (a recursive alias needs the quoted form)
    dict[str, "JsonableValue"], list["JsonableValue"], str, int, float, bool, None
]
"""A Python value that JSON can represent (specification 5.3)."""
