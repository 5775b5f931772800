"""Types and functions of blocks that call functions."""

from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from pydantic import BaseModel

__all__ = [
    "Article",
    "Cart",
    "Forecast",
    "Money",
    "Rates",
    "add_working_days",
    "cancel_order",
    "escalate",
    "exchange_rate",
    "fetch_notes",
    "find_article",
    "forecast",
    "refund_order",
]


@dataclass(frozen=True)
class Money:
    """An amount in a currency."""

    amount: Decimal
    currency: str


RATES = {("EUR", "USD"): Decimal("1.10"), ("EUR", "CHF"): Decimal("0.95"), ("EUR", "SEK"): Decimal("11.20")}


def exchange_rate(source: str, target: str) -> Decimal:
    """The rate of today between two currencies, by their codes of three letters."""
    return RATES[source, target]


@dataclass(frozen=True)
class Article:
    """An article in the shop."""

    sku: str
    title: str
    price: Money


def find_article(title: str) -> Article:
    """Find an article by its title."""
    prices = {"tent": Decimal(200), "stove": Decimal(50)}
    return Article(f"A-{title[:2].upper()}", title, Money(prices[title], "EUR"))


def add_working_days(start: date, days: int) -> date:
    """The date so many working days after another; Saturdays and Sundays do not count."""
    while days > 0:
        start += timedelta(days=1)
        days -= start.weekday() < 5
    return start


@dataclass(frozen=True)
class Forecast:
    """The weather of a day."""

    city: str
    day: date
    low: int
    high: int
    rain_mm: float


async def forecast(city: str, day: date) -> Forecast:
    """The weather that is expected in a city."""
    warm = {"Bergen": 4, "Sevilla": 17}
    return Forecast(city, day, warm[city] - 3, warm[city] + 2, 22.5 if city == "Bergen" else 0.0)


def refund_order(order_id: str, *, percent: int = 100) -> str:
    """Refund an order; gives the number of the refund."""
    return f"refund of {order_id}: {percent} %"


def cancel_order(order_id: str) -> str:
    """Cancel an order that was not sent yet."""
    return f"cancelled {order_id}"


def escalate(order_id: str, reason: str) -> str:
    """Hand an order to a person."""
    return f"escalated {order_id}: {reason}"


@dataclass
class Cart:
    """A shopping cart."""

    lines: dict[str, int] = field(default_factory=dict)
    voucher: str | None = None

    def put(self, sku: str, quantity: int = 1) -> int:
        """Put more of an article into the cart; gives how many are in it then."""
        self.lines[sku] = self.lines.get(sku, 0) + quantity
        return self.lines[sku]

    def take_out(self, sku: str) -> None:
        """Take an article out altogether."""
        del self.lines[sku]

    def apply_voucher(self, code: str) -> None:
        """Use a voucher; it replaces the one before."""
        self.voucher = code


class Rates(BaseModel):
    """What two loans cost."""

    savings_after: float
    monthly_payment: float


async def fetch_notes(customer_id: int) -> str:
    """What support wrote down about a customer."""
    return f"Customer {customer_id}: prefers phone calls, in the afternoon; speaks Portuguese."
