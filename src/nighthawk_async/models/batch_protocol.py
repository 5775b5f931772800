"""Interface of providers' batch endpoints, and the parts that they share.

A batch is known by its key, which is part of the id of each of its items. Where the provider keeps a name or
metadata of a batch, the key is there as well, so that a batch whose submission was not recorded is found.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ..errors import ModelError, ModelProtocolError, ModelProviderError, ModelStatusError
from ..wire.json_text import NOT_JSON
from ..wire.provider_errors import status_error
from .endpoint_calls import EndpointCalls

METADATA_KEY = "nighthawk_batch"
"""The name under which a provider keeps the key of a batch."""

LATEST_ARRIVAL_SECONDS = 900.0
"""The time after the recorded beginning of a submission at which the provider may still receive it."""

EARLIEST_ARRIVAL_SECONDS = 300.0
"""The greatest difference between the clocks of the provider and of this machine."""


class BatchItem(Struct, frozen=True, kw_only=True):
    """One request of a batch.

    Args:
        id: Its id, unique at the provider.
        body: Its body, a JSON object.
    """

    id: str
    body: bytes


class SentBatch(Struct, frozen=True, kw_only=True):
    """A batch that was, or is about to be, submitted.

    Args:
        key: Its key.
        count: The number of its items.
        path: The path of its requests below the base URL.
        sent_at: The time at which its submission began, in seconds since 1970.
    """

    key: str
    count: int
    path: str
    sent_at: float

    def item_id(self, position: int) -> str:
        """The id of the item at a position."""
        return f"{self.key}-{position}"

    def may_have_begun_at(self, moment: float) -> bool:
        """Whether the provider may have received it at a time, in seconds since 1970."""
        return -EARLIEST_ARRIVAL_SECONDS <= moment - self.sent_at <= LATEST_ARRIVAL_SECONDS


class ItemResult(Struct, frozen=True, kw_only=True):
    """The result of one item.

    Args:
        body: The response, a JSON document; None when there is an error.
        error: The error; None when there is a response.
        was_processed: Whether the provider may have worked on it.
    """

    body: bytes | None = None
    error: ModelError | None = None
    was_processed: bool = True


class BatchStatus(Struct, frozen=True, kw_only=True):
    """The state of a batch at its provider.

    Args:
        is_ended: Whether nothing changes any more.
        failure: The error that concerns all of its items; None for none.
        answer: The provider's own description of it.
    """

    is_ended: bool
    failure: ModelError | None = None
    answer: Mapping[str, Any]


Found: TypeAlias = str | Literal["none", "unclear"]
"""The id of a batch that was looked for; `none` when there is none, `unclear` when that is not known yet."""


class BatchProtocol(Protocol):
    """Speaks to the batch endpoint of one provider. It holds no state."""

    @property
    def max_requests(self) -> int:
        """The greatest number of requests in a batch."""
        ...

    @property
    def max_bytes(self) -> int:
        """The greatest size of a batch, in bytes."""
        ...

    async def submit(
        self,
        calls: EndpointCalls,
        batch: SentBatch,
        items: Sequence[BatchItem],
        headers: Mapping[str, str],
    ) -> str:
        """Submit a batch, and return its id.

        Args:
            calls: Makes the calls.
            batch: The batch.
            items: Its items.
            headers: The headers that the protocol wants with each of its requests.

        Raises:
            LostAnswerError: It is unknown whether the provider has the batch.
            ModelError: The provider does not have it.
        """
        ...

    async def status(self, calls: EndpointCalls, batch_id: str) -> BatchStatus:
        """Return the state of a batch.

        Raises:
            ModelError: It could not be found out.
        """
        ...

    async def results(
        self, calls: EndpointCalls, batch_id: str, batch: SentBatch, status: BatchStatus
    ) -> dict[str, ItemResult]:
        """Return the results of a batch that has ended, by the ids of the items; some may be missing.

        Raises:
            ModelError: They could not be had.
        """
        ...

    async def cancel(self, calls: EndpointCalls, batch_id: str) -> None:
        """Cancel a batch.

        Raises:
            ModelError: It could not be cancelled; it may have ended.
        """
        ...

    async def find(self, calls: EndpointCalls, batch: SentBatch) -> Found:
        """Look for a batch of which it is unknown whether the provider has it.

        Raises:
            ModelError: The batches could not be listed.
        """
        ...


LineType: TypeAlias = type[Any]


def json_lines(content: bytes, form: LineType) -> Iterator[Any]:
    """The lines of a JSON Lines document.

    Args:
        content: The document.
        form: The type of each line.

    Raises:
        ModelProtocolError: A line is not of that type.
    """
    decoder: Any = msgspec.json.Decoder(form)
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except NOT_JSON as error:
                raise ModelProtocolError(f"line {number} of the results of a batch: {error}") from error


def failed_item(status: int, body: bytes) -> ItemResult:
    """The result of an item that the provider answered with an error.

    Args:
        status: The HTTP status of the same error outside a batch.
        body: The error's body.
    """
    error = status_error(status, {}, body)
    return ItemResult(error=error, was_processed=False)


def unprocessed_item(reason: str, error_type: str) -> ItemResult:
    """The result of an item that the provider did not get to; it may be asked again.

    Args:
        reason: The reason.
        error_type: The provider's name of it.
    """
    error = ModelProviderError(reason, error_type=error_type, is_transient=True)
    return ItemResult(error=error, was_processed=False)


def missing_item() -> ItemResult:
    """The result of an item that is not among the results of its batch."""
    return unprocessed_item("the batch ended without a result for the request", "missing_result")


def is_gone(error: ModelError) -> bool:
    """Whether an error says that a batch or its results do not exist (any more)."""
    return isinstance(error, ModelStatusError) and error.status in (404, 410)
