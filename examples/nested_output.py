"""Structured output: a pydantic model with nested models, validated, and corrected by the model if needed."""

from decimal import Decimal

import anyio
from pydantic import BaseModel, Field

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


class Line(BaseModel):
    article: str
    quantity: int = Field(ge=1)
    price: Decimal = Field(description="Price of one piece, in euros")


class Invoice(BaseModel):
    number: str
    lines: list[Line]


@nh.natural_function
async def read_invoice(text: str) -> Invoice:
    invoice: Invoice = nh.unset
    """natural
    Set <:invoice> to the invoice in <text>.
    """
    return invoice


async def main() -> None:
    async with nh.run(MODEL):
        invoice = await read_invoice("Invoice 2026-17: two lamps at 19.90 and one table at 149 euros.")
    print(invoice.number, sum(line.quantity * line.price for line in invoice.lines))


if __name__ == "__main__":
    anyio.run(main)
