"""Questions to people in runs with a journal, as the store shows them, and votes that it takes."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class AskedQuestion(Struct, frozen=True, kw_only=True):
    """A question to people, as the store shows it.

    Args:
        id: Its id; see `BegunQuestion`.
        kind: Its kind.
        content: Its parts by name, as plain data.
        schema: The JSON schema of the answers; None where there is none.
        ends_at: The time at which it ends without an answer, in seconds since 1970; None for never.
    """

    id: str
    kind: Literal["question", "approval"]
    content: Mapping[str, object]
    schema: Mapping[str, object] | None = None
    ends_at: float | None = None


class GivenVote(Struct, frozen=True, kw_only=True):
    """An answer to a request for approval that was given through the store.

    Args:
        number: Its number among those of the request, from 1.
        voter: The person.
        approves: Whether the person approves.
        reason: The reason, if one was given.
        at: The time, in seconds since 1970.
    """

    number: int
    voter: str
    approves: bool
    reason: str
    at: float
