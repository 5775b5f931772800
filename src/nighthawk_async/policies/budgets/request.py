"""One model request in the books of the budgets in force.

    measure the request -> reserve its upper bound in every account -> … the response … -> settle

What is reserved is an upper bound, so no account can be overspent by what goes on at the same time. A request
that is cut off is charged what was told of it, and what nobody told is estimated: the whole input when it may
have been sent, and the output as far as it arrived, or the longest when the model reasons, because most
reason out of sight. When the transport sends it again, each attempt is set aside and charged like that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol, runtime_checkable

import anyio.to_thread

from ...catalog.request_cost import Prices, highest_cost, known_cost, priced
from ...errors import ConfigurationError
from ...ports import AttemptsSource, HasSettings, Model
from ...prompt.tokens import TokenCounter
from ...runtime.request_bound import (
    RequestBound,
    TokenMeasure,
    count_answers,
    find_output_limit,
    find_unknown_input,
    reasons,
    request_text,
)
from ...threads import thread_limiter
from ...types.model import ModelEvent, ModelRequest, ReasoningDelta, TextDelta, ToolCallArgumentsDelta
from ...types.usage import Usage
from .account import Amounts, BudgetAccount, Payer
from .notices import CONCLUSION_TOKENS
from .reservation import Entry, Reservation, charge_usage, reserve_in_turn
from .terms import Amount, Resource

_LONG_CHARACTERS = 200_000
"""A request that is longer is measured in a worker thread: the event loop would stand still for too long."""


@runtime_checkable
class _CountsTokens(Protocol):
    """A step executor that says how tokens are counted for its model."""

    token_encoding: TokenCounter


@dataclass(slots=True, kw_only=True, eq=False)
class BudgetedRequest:
    """A request for which every account has set its upper bound aside. Made by `open_request`.

    Args:
        model: The model.
        request: The request as it may be sent.
        accounts: The accounts, outermost first.
        measure: Measures texts.
        bound: The upper bound; None when no account limits tokens or money.
        reservation: The reservation.
    """

    model: Model
    request: ModelRequest
    accounts: tuple[BudgetAccount, ...]
    measure: TokenMeasure
    bound: RequestBound | None
    reservation: Reservation
    received: list[str]
    attempts: AttemptsSource | None = None
    """Gives the attempts, once the request is sent again."""
    pricing_error: Exception | None = None
    """Why what was set aside was charged: a function of the user's that prices has failed."""

    @property
    def concludes(self) -> bool:
        """Whether the model is to be told that this is the last request that fits."""
        return self.reservation.concludes

    def note(self, event: ModelEvent) -> None:
        """Remember what has arrived, for the case that nobody tells its usage."""
        if self.bound is None:
            return
        match event:
            case TextDelta() | ReasoningDelta():
                self.received.append(event.text)
            case ToolCallArgumentsDelta():
                self.received.append(event.fragment)
            case _:
                pass

    def check_resend(self, attempts: AttemptsSource) -> bool:
        """Keep what the attempts so far consumed, and set the next one aside in every account as well.

        Args:
            attempts: Gives the attempts, now and at the end.

        Returns:
            Whether there was room; False when only what others have set aside is in the way.

        Raises:
            BudgetExceededError: An account has no room for another attempt, whatever others do.
        """
        self.attempts = attempts
        if self.bound is None:
            return True
        parts = self._parts(None, may_have_consumed=True)
        accounts, bound = self.accounts, self.bound
        spent = [self._spent(position, parts, cost) for position, cost in enumerate(self._costs(parts))]
        kept: list[Amounts] = [{**each, "turns": 1} for each in spent]
        added = [_bound_amounts(self.model, accounts, position, bound) for position in range(len(accounts))]
        return self.reservation.renew(kept, added)

    def settle(self, reported: Usage | None, *, may_have_consumed: bool) -> Usage:
        """Charge what the request consumed, and return the rest.

        What cannot be priced is charged what was set aside; see `pricing_error`.

        Args:
            reported: The reported usage; None when there was none.
            may_have_consumed: Whether it may have consumed what was not told.

        Returns:
            What was charged, with the cost that the nearest account was charged.
        """
        parts = self._parts(reported, may_have_consumed=may_have_consumed)
        usage = sum(parts, Usage())
        spent = self.reservation.amounts
        try:
            costs = self._costs(parts)
            spent = [self._spent(position, parts, cost) for position, cost in enumerate(costs)]
            usage = _with_cost(usage, costs[-1])
        except Exception as error:  # a function of the user's; the response must be closed before it is told
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
        """Return the cost of all attempts, by each account's prices; None where it is unknown."""
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

    def _spent(self, position: int, parts: Sequence[Usage], cost: Decimal | None) -> Amounts:
        return _amounts(sum(parts, Usage()), self._reserved_cost(position) if cost is None else cost)

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
        """The usage, with an estimate in the place of what was not told.

        Args:
            reported: The reported usage.
            text: The text that has arrived.
        """
        if reported.is_complete or self.bound is None:
            return reported
        if reasons(self.request.settings, self.model.capabilities):
            received = self.bound.output_tokens  # nobody sees how much
        else:
            received = self.measure.most_tokens(text) if text else 0
        usage = replace(
            reported,
            input_tokens=reported.input_tokens or self.bound.input_tokens,
            output_tokens=max(reported.output_tokens, min(received, self.bound.output_tokens)),
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
    """Set the upper bound of a request aside in every account; see `reserve_in_turn`.

    Args:
        model: The model.
        request: The request.
        accounts: The accounts, outermost first.
        executor: The step executor in force.
        payers: The steps in progress that are charged, outermost first.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
        ConfigurationError: The bound, or the price, is unknown.
    """
    measure = _measure(model, executor)
    bound = None
    if any(account.terms.needs_bounds for account in accounts):
        request = _with_output_limit(request, model, accounts)
        bound = await _bound(model, request, measure)
    entries = [_entry(model, accounts, position, bound) for position in range(len(accounts))]
    return BudgetedRequest(
        model=model,
        request=request,
        accounts=accounts,
        measure=measure,
        bound=bound,
        reservation=await reserve_in_turn(entries, payers=payers),
        received=[],
    )


def charge_foreign_usage(accounts: tuple[BudgetAccount, ...], model_name: str, usage: Usage) -> Usage:
    """Charge what an agent of the user's own has consumed, by its own account.

    Args:
        accounts: The accounts, outermost first.
        model_name: The model id.
        usage: The usage; what cannot be true of it is left out.

    Returns:
        The usage, with the cost that the nearest account was charged.

    Raises:
        ConfigurationError: A user's function gives no amount of money.
    """
    usage = usage.credible()
    entries: list[Entry] = []
    counted = usage
    for position, account in enumerate(accounts):
        prices = _prices(accounts, position)
        cost = known_cost(usage, model_name=model_name, prices=prices, model_price=None)
        account.has_unpriced = account.has_unpriced or cost is None
        amounts: dict[Resource, Amount] = {**_amounts(usage, cost)}
        del amounts["turns"]  # counted when the turn began
        entries.append(Entry(account, amounts))
        counted = _with_cost(usage, cost)
    charge_usage(entries, model_name, counted)
    return counted


def _measure(model: Model, executor: object) -> TokenMeasure:
    if isinstance(executor, _CountsTokens):
        return TokenMeasure(executor.token_encoding, model.name)
    return TokenMeasure(TokenCounter.resolve(encoding_name=None, model_name=model.name), model.name)


def _with_output_limit(
    request: ModelRequest, model: Model, accounts: Sequence[BudgetAccount]
) -> ModelRequest:
    """The request, with the budgets' limit of a response where it has none of its own."""
    given = [account.terms.max_output_tokens for account in accounts]
    limits = [limit for limit in given if limit is not None]
    if not limits or find_output_limit(request.settings):
        return request
    most = model.capabilities.max_output_tokens
    limit = min(limits) if most is None else min(*limits, most)
    return replace(request, settings={**request.settings, "max_tokens": limit})


async def _bound(model: Model, request: ModelRequest, measure: TokenMeasure) -> RequestBound:
    if isinstance(model, HasSettings):
        request = replace(request, settings=model.settings_of(request.settings))
    source = find_unknown_input(request.settings)
    if source is not None:
        raise ConfigurationError(
            f"{model.name}: a budget of tokens or cost cannot hold with {source!r}: the provider adds "
            "what it has stored or finds, and nobody knows how long that is. Send it in the messages."
        )
    output_tokens = find_output_limit(request.settings) or model.capabilities.max_output_tokens
    if output_tokens is None:
        raise ConfigurationError(
            f"{model.name}: a budget of tokens or cost cannot hold, because nobody knows how long a response "
            "may be. Set the model setting 'max_tokens', or max_output_tokens of the budget."
        )
    text = request_text(request)
    if measure.is_loaded and len(text) <= _LONG_CHARACTERS:
        input_tokens = measure.most_tokens_of(request, text)
    else:
        input_tokens = await anyio.to_thread.run_sync(
            measure.most_tokens_of, request, text, limiter=thread_limiter()
        )
    return RequestBound(
        input_tokens=input_tokens + CONCLUSION_TOKENS,
        output_tokens=output_tokens * count_answers(request.settings),
    )


def _entry(
    model: Model, accounts: Sequence[BudgetAccount], position: int, bound: RequestBound | None
) -> Entry:
    amounts: Amounts = {} if bound is None else _bound_amounts(model, accounts, position, bound)
    return Entry(accounts[position], {**amounts, "turns": 1})


def _bound_amounts(
    model: Model, accounts: Sequence[BudgetAccount], position: int, bound: RequestBound
) -> Amounts:
    """The most that one attempt can consume."""
    terms = accounts[position].terms
    amounts: dict[Resource, Amount] = {"tokens": bound.input_tokens + bound.output_tokens}
    if terms.limits.cost is not None:
        amounts["cost"] = _highest_cost(model, _prices(accounts, position), bound, terms.name)
    return amounts


def _highest_cost(model: Model, prices: Sequence[Prices], bound: RequestBound, budget: str) -> Decimal:
    cost = highest_cost(
        bound.input_tokens,
        bound.output_tokens,
        model_name=model.name,
        prices=prices,
        model_price=model.capabilities.price,
    )
    if cost is None:
        raise ConfigurationError(
            f"{model.name}: budget {budget} limits cost, but nobody knows the price of the model. Say it: "
            f"prices={{{model.name!r}: nighthawk_async.models.ModelPrice(input=…, output=…)}}, in US dollars "
            "per million tokens, or prices=function."
        )
    return cost


def _prices(accounts: Sequence[BudgetAccount], position: int) -> list[Prices]:
    """Return the prices of an account and of its parents, the nearest first."""
    said = (account.terms.prices for account in reversed(accounts[: position + 1]))
    return [prices for prices in said if prices is not None]


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
