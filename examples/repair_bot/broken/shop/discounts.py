"""What customers do not have to pay."""

FROM = 10_000
"""The subtotal from which on there is a discount, in cents."""


def discount_on(subtotal: int) -> int:
    """Return the discount on a subtotal, in cents: a tenth from 100.00 on."""
    return subtotal // 10 if subtotal > FROM else 0
