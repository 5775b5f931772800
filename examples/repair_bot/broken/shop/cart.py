"""The cart of a customer."""

from dataclasses import dataclass, field

from .discounts import discount_on


@dataclass
class Cart:
    """Things that a customer wants to buy.

    Args:
        prices: The price of one of each, in cents, by name.
        quantities: How many of each, by name.
    """

    prices: dict[str, int] = field(default_factory=dict[str, int])
    quantities: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, name: str, price: int, quantity: int = 1) -> None:
        """Put something into the cart, also when there is some of it already."""
        self.prices[name] = price
        self.quantities[name] = quantity

    def total(self) -> int:
        """The sum to pay, in cents."""
        subtotal = sum(price * self.quantities[name] for name, price in self.prices.items())
        return subtotal - discount_on(subtotal)
