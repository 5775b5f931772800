"""Charges of one model request to the accounts of the active budgets.

    measure the request -> reserve its upper bound in every account -> … the response … -> settle

The reservation is an upper bound, so concurrent requests cannot overspend an account. A request that is cut
off is charged its reported usage; unreported usage is estimated: the whole input when it may have been sent,
and the output that arrived, or the longest possible output when the model reasons, because most models do not
show their reasoning. When the transport sends the request again, each attempt is reserved and charged so.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import anyio.to_thread

from ...catalog.request_cost import Prices, highest_cost, known_cost, priced
from ...errors import BudgetExceededError, ConfigurationError
from ...ports import AttemptsSource, Model
from ...prompt.tokens import TokenCounter
from ...threads import thread_limiter
from ...types.model import ModelEvent, ModelRequest, ReasoningDelta, TextDelta, ToolCallArgumentsDelta
from ...types.native_tools import NativeCallStarted
from ...types.usage import Usage
from ...values.request_bound import (
    TOKENS_OF_NATIVE_USE,
    USES,
    RequestBound,
    TokenMeasure,
    count_answers,
    count_native_uses,
    find_output_limit,
    find_unknown_input,
    may_cache_for_an_hour,
    reasons,
    request_text,
)
from .account import BudgetAccount, Payer
from .lending import LentReservation, charge_usage, reserve_in_turn
from .notices import CONCLUSION_TOKENS
from .reservation import Entry, Reservation
from .shared import SharedReservation
from .terms import Amount, Amounts, Resource

_PLENTY = 64
"""Where there is room for as many times the bytes of a request, these are set aside: no token is counted."""

_LONG_CHARACTERS = 200_000
"""A longer request is measured in a worker thread, because it would block the event loop for too long."""


@dataclass(slots=True, kw_only=True, eq=False)
class BudgetedRequest:
    """A request whose upper bound is reserved in every account. Made by `open_request`.

    Args:
        model: The model.
        request: The request to send.
        accounts: The accounts, outermost first.
        measure: Measures texts.
        bound: The upper bound; None when no account limits tokens or money.
        count: Returns the upper bound by the tokens of the request, where that of its bytes is reserved.
        reservation: The reservation.
    """

    model: Model
    request: ModelRequest
    accounts: tuple[BudgetAccount, ...]
    measure: TokenMeasure
    bound: RequestBound | None
    count: Callable[[], RequestBound] | None
    reservation: Reservation | LentReservation | SharedReservation
    received: list[str]
    seen_uses: Counter[str] = field(default_factory=Counter[str])
    """The uses of native tools that have begun, as fields of `Usage`."""
    attempts: AttemptsSource | None = None
    """Returns the attempts, once the request is sent again."""
    pricing_error: Exception | None = None
    """The error of the user's price function, because of which the whole reservation was charged."""
    has_begun: bool = False
    """Whether the response has begun to arrive."""

    @property
    def next_breach(self) -> BudgetExceededError | None:
        """The reason why this is the last request that fits, so that the model must end the block."""
        return self.reservation.next_breach

    def note(self, event: ModelEvent) -> None:
        """Keep the text that has arrived, to estimate usage that is not reported."""
        if not self.has_begun:
            self.has_begun = True
            if isinstance(self.reservation, SharedReservation):
                self.reservation.begin(self._consumed())
        if self.bound is None:
            return
        match event:
            case TextDelta() | ReasoningDelta():
                self.received.append(event.text)
            case ToolCallArgumentsDelta():
                self.received.append(event.fragment)
            case NativeCallStarted() if event.name in USES:
                self.seen_uses[USES[event.name]] += 1
            case _:
                pass

    def check_resend(self, attempts: AttemptsSource) -> bool | Awaitable[bool]:
        """Reserve the next attempt in every account, in addition to the consumption of the attempts so far.

        Args:
            attempts: Returns the attempts, now and at the end.

        Returns:
            Whether there was room; False when there would be, but for the reservations of others. To be
            awaited where an account is kept elsewhere.

        Raises:
            BudgetExceededError: An account has no room for another attempt, even without the reservations of
                others.
        """
        self.attempts = attempts
        bound = self._counted()
        if bound is None:
            return True
        accounts = self.accounts
        kept = self._estimated()
        added = [_bound_amounts(self.model, accounts, position, bound) for position in range(len(accounts))]
        return self.reservation.renew(kept, added)

    def _counted(self) -> RequestBound | None:
        """Return the upper bound by the tokens of the request."""
        if self.count is not None:
            self.bound, self.count = self.count(), None
        return self.bound

    def _consumed(self) -> list[Amounts]:
        """Return what the request has consumed so far for sure; all of it where no price can be found."""
        try:
            return self._estimated()
        except Exception:  # of the user's price function; raised at the end, see `settle`
            return self.reservation.amounts

    def _estimated(self) -> list[Amounts]:
        """Return what the attempts so far may have consumed, for each account."""
        parts = self._parts(None, may_have_consumed=True)
        usage = _total(parts)
        spent = [self._spent(position, usage, cost) for position, cost in enumerate(self._costs(parts))]
        return [{**each, "turns": 1} for each in spent]

    def settle(self, reported: Usage | None, *, may_have_consumed: bool) -> Usage:
        """Charge the consumption of the request, and return the rest of the reservation.

        When the price function fails, the whole reservation is charged; see `pricing_error`.

        Args:
            reported: The reported usage; None when there was none.
            may_have_consumed: Whether it may have consumed more than was reported.

        Returns:
            The charged usage, with the cost for the nearest account.
        """
        parts = self._parts(reported, may_have_consumed=may_have_consumed)
        usage = _total(parts)
        spent = self.reservation.amounts
        try:
            costs = self._costs(parts)
            spent = [self._spent(position, usage, cost) for position, cost in enumerate(costs)]
            usage = _with_cost(usage, costs[-1])
        except Exception as error:  # of the user's price function; raised later, once the response is closed
            self.pricing_error = error
        finally:
            self.reservation.settle(spent, self.model.name, usage)
        return usage

    def _parts(self, reported: Usage | None, *, may_have_consumed: bool) -> list[Usage]:
        """Return the usage of each attempt, with estimates where none was reported.

        The first part counts as the request; one part when the request was sent once.
        """
        attempts = () if self.attempts is None else self.attempts()
        arrived = "".join(self.received)
        if not attempts:
            return [self._part(reported, arrived, may_have_consumed=may_have_consumed, requests=1)]
        texts = [*[""] * (len(attempts) - 1), arrived]
        parts = [
            self._part(attempt.reported, text, may_have_consumed=attempt.may_have_consumed)
            for attempt, text in zip(attempts, texts, strict=True)
        ]
        parts = [part for part in parts if part.input_tokens or part.output_tokens] or [Usage()]
        whole = reported or Usage(requests=1)
        parts[0] = replace(
            parts[0],
            requests=whole.requests,
            retries=whole.retries,
            unpriced_requests=whole.unpriced_requests,
            is_complete=parts[0].is_complete and whole.is_complete,
        )
        return parts

    def _costs(self, parts: Sequence[Usage]) -> list[Decimal | None]:
        """Return the cost of all attempts by the prices of each account; None where it is unknown."""
        return [self._cost(_prices(self.accounts, position), parts) for position in range(len(self.accounts))]

    def _cost(self, prices: Sequence[Prices], parts: Sequence[Usage]) -> Decimal | None:
        model = self.model
        price = model.capabilities.price
        total = Decimal(0)
        for usage in parts:
            cost = known_cost(usage, model_name=model.name, prices=prices, model_price=price)
            if cost is None:
                return None
            total += cost
        return total

    def _spent(self, position: int, usage: Usage, cost: Decimal | None) -> Amounts:
        return _amounts(usage, self._reserved_cost(position) if cost is None else cost)

    def _reserved_cost(self, position: int) -> Decimal | None:
        """Return the reserved US dollars of an account; None when it does not limit them."""
        cost = self.reservation.amounts[position].get("cost")
        return None if cost is None else Decimal(cost)

    def _part(
        self, reported: Usage | None, text: str, *, may_have_consumed: bool, requests: int = 0
    ) -> Usage:
        if not may_have_consumed:
            return reported or Usage()
        return self._completed(reported or Usage(requests=requests, is_complete=False), text)

    def _completed(self, reported: Usage, text: str) -> Usage:
        """Return the usage, with estimates where it was not reported.

        Args:
            reported: The reported usage.
            text: The text that has arrived.
        """
        if reported.is_complete or (bound := self._counted()) is None:
            return reported
        if reasons(self.request.settings, self.model.capabilities):
            received = bound.output_tokens  # the reasoning may be hidden
        else:
            received = self.measure.most_tokens(text) if text else 0
        seen: dict[str, Any] = {
            name: max(getattr(reported, name), number) for name, number in self.seen_uses.items()
        }
        usage = replace(
            reported,
            input_tokens=reported.input_tokens or bound.input_tokens,
            output_tokens=max(reported.output_tokens, min(received, bound.output_tokens)),
            **seen,
        )
        estimated = priced(replace(usage, cost=Decimal(0)), self.model.capabilities.price)
        return replace(estimated, cost=max(reported.cost, estimated.cost))


async def open_request(
    model: Model,
    request: ModelRequest,
    accounts: tuple[BudgetAccount, ...],
    *,
    executor: object,
    payers: Sequence[Payer],
) -> BudgetedRequest:
    """Reserve the upper bound of a request in every account; see `reserve_in_turn`.

    Args:
        model: The model.
        request: The request, with its output limit.
        accounts: The accounts, outermost first.
        executor: The active step executor.
        payers: The steps in progress that are charged, outermost first.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
        ConfigurationError: The bound or the price is unknown.
    """
    measure = _measure(model, executor)
    bound = count = None
    if any(account.terms.needs_bounds for account in accounts):
        bound, count = await _bound(model, request, measure, accounts)
    entries = [_entry(model, accounts, position, bound) for position in range(len(accounts))]
    return BudgetedRequest(
        model=model,
        request=request,
        accounts=accounts,
        measure=measure,
        bound=bound,
        count=count,
        reservation=await reserve_in_turn(entries, model_name=model.name, payers=payers),
        received=[],
    )


def charge_foreign_usage(accounts: tuple[BudgetAccount, ...], model_name: str, usage: Usage) -> Usage:
    """Charge the usage that the user's own agent reports.

    Args:
        accounts: The accounts, outermost first.
        model_name: The model id.
        usage: The reported usage; implausible values are ignored.

    Returns:
        The usage, with the cost for the nearest account.

    Raises:
        ConfigurationError: A price function returned something other than an amount of money.
    """
    usage = usage.credible()
    entries: list[Entry] = []
    counted = usage
    for position, account in enumerate(accounts):
        prices = _prices(accounts, position)
        cost = known_cost(usage, model_name=model_name, prices=prices, model_price=None)
        account.has_unpriced = account.has_unpriced or cost is None
        amounts: dict[Resource, Amount] = {**_amounts(usage, cost)}
        del amounts["turns"]  # charged when the turn started
        entries.append(Entry(account, amounts))
        counted = _with_cost(usage, cost)
    charge_usage(entries, model_name, counted, is_foreign=True)
    return counted


def charge_replayed(accounts: tuple[BudgetAccount, ...], usages: Mapping[str, Usage], steps: int) -> None:
    """Charge what a skipped part of a run consumed in an earlier life, even without room.

    Args:
        accounts: The accounts, outermost first.
        usages: The usage of the part, by model.
        steps: The number of its steps.
    """
    for position, account in enumerate(accounts):
        prices = _prices(accounts, position)
        for model_name, usage in usages.items():
            cost = known_cost(usage, model_name=model_name, prices=prices, model_price=None)
            amounts: dict[Resource, Amount] = {**_amounts(usage, cost), "turns": usage.requests}
            charge_usage([Entry(account, amounts)], model_name, _with_cost(usage, cost))
        if steps:
            charge_usage([Entry(account, {"steps": steps})], "", None)


def _measure(model: Model, executor: object) -> TokenMeasure:
    own: object = getattr(executor, "token_encoding", None)  # of an executor that counts tokens for its model
    if isinstance(own, TokenCounter):
        return TokenMeasure(own, model.name)
    return TokenMeasure(TokenCounter.resolve(encoding_name=None, model_name=model.name), model.name)


def with_output_limit(request: ModelRequest, model: Model, accounts: Sequence[BudgetAccount]) -> ModelRequest:
    """Return the request with the output limit of the budgets, unless it has its own or needs none.

    Args:
        request: The request.
        model: The model.
        accounts: The accounts, outermost first.
    """
    if not any(account.terms.needs_bounds for account in accounts):
        return request
    given = [account.terms.max_output_tokens for account in accounts]
    limits = [limit for limit in given if limit is not None]
    if not limits or find_output_limit(request.settings):
        return request
    most = model.capabilities.max_output_tokens
    limit = min(limits) if most is None else min(*limits, most)
    return replace(request, settings={**request.settings, "max_tokens": limit})


async def _bound(
    model: Model, request: ModelRequest, measure: TokenMeasure, accounts: Sequence[BudgetAccount]
) -> tuple[RequestBound, Callable[[], RequestBound] | None]:
    """Return the upper bound of a request, and what counts its tokens if the bound is that of its bytes."""
    settings_of: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = getattr(model, "settings_of", None)
    if settings_of is not None:  # `isinstance` of a protocol takes thirty times as long
        request = replace(request, settings=settings_of(request.settings))
    source = find_unknown_input(request.settings)
    if source is not None:
        raise ConfigurationError(
            f"{model.name}: a budget of tokens or cost cannot be kept with {source!r}: the provider adds "
            "what it has stored or finds, which may be of any length. Send it in the messages."
        )
    output_tokens = find_output_limit(request.settings) or model.capabilities.max_output_tokens
    if output_tokens is None:
        raise ConfigurationError(
            f"{model.name}: a budget of tokens or cost cannot be kept, because the length of a response is "
            "not limited. Set the model setting 'max_tokens', or max_output_tokens of the budget."
        )
    text = request_text(request)
    uses, unlimited = count_native_uses(request.settings)

    def bound_of(input_tokens: int) -> RequestBound:
        return RequestBound(
            input_tokens=input_tokens + CONCLUSION_TOKENS + TOKENS_OF_NATIVE_USE * _all_uses(uses),
            output_tokens=output_tokens * count_answers(request.settings),
            uses=uses,
            unlimited=unlimited,
            caches_for_an_hour=may_cache_for_an_hour(request.settings),
        )

    if measure.is_loaded and len(text) <= _LONG_CHARACTERS:
        bound = bound_of(measure.most_bytes_of(request, text))
        if _has_plenty(model, accounts, bound):
            return bound, lambda: bound_of(measure.most_tokens_of(request, request_text(request)))
        return bound_of(measure.most_tokens_of(request, text)), None
    return bound_of(
        await anyio.to_thread.run_sync(measure.most_tokens_of, request, text, limiter=thread_limiter())
    ), None


def _has_plenty(model: Model, accounts: Sequence[BudgetAccount], bound: RequestBound) -> bool:
    """Whether accounts have so much room that a bound may be a rough one, and none has prices to be asked."""
    return all(account.terms.prices is None for account in accounts) and all(
        account.has_plenty(_bound_amounts(model, accounts, position, bound), _PLENTY)
        for position, account in enumerate(accounts)
    )


def _all_uses(uses: Usage) -> int:
    return uses.web_searches + uses.code_executions + uses.file_searches


def _entry(
    model: Model, accounts: Sequence[BudgetAccount], position: int, bound: RequestBound | None
) -> Entry:
    amounts: Amounts = {} if bound is None else _bound_amounts(model, accounts, position, bound)
    return Entry(accounts[position], {**amounts, "turns": 1})


def _bound_amounts(
    model: Model, accounts: Sequence[BudgetAccount], position: int, bound: RequestBound
) -> Amounts:
    """Return the upper bound of one attempt's consumption."""
    terms = accounts[position].terms
    amounts: dict[Resource, Amount] = {"tokens": bound.input_tokens + bound.output_tokens}
    if terms.limits.cost is not None:
        amounts["cost"] = _highest_cost(model, _prices(accounts, position), bound, terms.name)
    return amounts


def _highest_cost(model: Model, prices: Sequence[Prices], bound: RequestBound, budget: str) -> Decimal:
    def cost_with(uses: Usage) -> Decimal | None:
        return highest_cost(
            bound.input_tokens,
            bound.output_tokens,
            model_name=model.name,
            prices=prices,
            model_price=model.capabilities.price,
            uses=uses,
            caches_for_an_hour=bound.caches_for_an_hour,
        )

    cost = cost_with(bound.uses)
    if bound.unlimited and cost != cost_with(Usage()):
        raise ConfigurationError(
            f"{model.name}: budget {budget} limits cost, but each use of {' and '.join(bound.unlimited)} in "
            "'native_tools' is billed, and their number is not limited. Set max_uses if the protocol has it, "
            "or limit tokens instead."
        )
    if cost is None:
        raise ConfigurationError(
            f"{model.name}: budget {budget} limits cost, but the price of the model is unknown. Set it: "
            f"prices={{{model.name!r}: nighthawk_async.models.ModelPrice(input=…, output=…)}}, in US dollars "
            "per million tokens, or prices=function."
        )
    return cost


def _prices(accounts: Sequence[BudgetAccount], position: int) -> list[Prices]:
    """Return the prices of an account and of its parents, the nearest first."""
    given = (account.terms.prices for account in reversed(accounts[: position + 1]))
    return [prices for prices in given if prices is not None]


def _total(parts: Sequence[Usage]) -> Usage:
    return parts[0] if len(parts) == 1 else sum(parts, Usage())


def _with_cost(usage: Usage, cost: Decimal | None) -> Usage:
    return usage if cost is None else replace(usage, cost=cost, unpriced_requests=0)


def _amounts(usage: Usage, cost: Decimal | None) -> Amounts:
    amounts: dict[Resource, Amount] = {
        "tokens": usage.input_tokens + usage.output_tokens,
        "turns": min(usage.requests, 1),
    }
    if cost is not None:
        amounts["cost"] = cost
    return amounts
