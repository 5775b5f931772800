"""The payment service: a file of charges, which honours keys as payment services do."""

import json
import os
from pathlib import Path

from pydantic import BaseModel


class Receipt(BaseModel):
    """The proof that an order was paid for."""

    order: str
    amount: float


class Payments:
    """The charges that were made.

    Args:
        path: Their file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def charge(self, receipt: Receipt, key: str) -> None:
        """Charge the customer of an order."""
        with self._path.open("a") as file:
            file.write(json.dumps({"key": key, **receipt.model_dump()}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def find(self, key: str) -> Receipt | None:
        """Return the receipt of a charge; None if it was not made."""
        return next((receipt for found, receipt in self.all() if found == key), None)

    def all(self) -> list[tuple[str, Receipt]]:
        """Return all charges with their keys."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        charges = [json.loads(line) for line in lines]
        return [(charge.pop("key"), Receipt(**charge)) for charge in charges]
