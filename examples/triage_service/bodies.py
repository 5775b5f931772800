"""What clients send: read up to a bound, and checked."""

from contextlib import aclosing
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

__all__ = ["MAX_BODY_BYTES", "Batch", "Steering", "Ticket", "read_body"]

MAX_BODY_BYTES = 1024 * 1024

Text = Annotated[str, Field(min_length=1, max_length=4_000)]
Body = TypeVar("Body", bound=BaseModel)


class Ticket(BaseModel):
    """A ticket.

    Args:
        text: What the customer has written.
    """

    text: Text


class Batch(BaseModel):
    """Many tickets.

    Args:
        tickets: What the customers have written.
    """

    tickets: Annotated[list[Text], Field(min_length=1, max_length=500)]


class Steering(BaseModel):
    """A message to a step.

    Args:
        message: What the model is told at its next turn.
    """

    message: Text


async def read_body(request: Request, body_type: type[Body]) -> Body:
    """The body of a request.

    Args:
        request: The request.
        body_type: What it must be, as JSON.

    Raises:
        HTTPException: It is too long, or something else. What it says quotes nothing of the body.
    """
    try:
        return body_type.model_validate_json(await _read(request))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()]
        raise HTTPException(422, "; ".join(faults[:10])) from None


async def _read(request: Request) -> bytes:
    content = bytearray()
    async with aclosing(request.stream()) as parts:
        async for part in parts:
            content += part
            if len(content) > MAX_BODY_BYTES:
                raise HTTPException(413, f"The body has more than {MAX_BODY_BYTES:,} bytes.")
    return bytes(content)
