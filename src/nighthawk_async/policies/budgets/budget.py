"""`budget`: limits of what a run, a scope, a function or a step may spend."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar, cast, overload

from ...catalog.request_cost import Prices
from ...errors import NighthawkError
from ...kernel.environment import get_environment, using_environment
from ...kernel.features import Feature
from ...kernel.policy import InnerScope, Policies
from ...parallel.calling import wrap_calls
from ...types.usage import Usage
from .account import BudgetAccount
from .ledger import KeepsBudgets, Ledger
from .lives import counting_time_of_lives
from .policy import keep_refusals_from_model, with_accounts, with_step_terms
from .terms import BudgetAmounts, BudgetLimits, BudgetTerms, OnExceeded, checked_terms
from .windows import Period

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_entered = Feature[tuple[tuple["Budget", ExitStack], ...]](())


@overload
def budget(
    function: Callable[Parameters, Result],
    /,
    *,
    tokens: int | None = None,
    cost: Decimal | float | None = None,
    steps: int | None = None,
    turns: int | None = None,
    tool_calls: int | None = None,
    seconds: float | None = None,
    name: str | None = None,
    max_output_tokens: int | None = None,
    prices: Prices | None = None,
    on_exceeded: OnExceeded = "fail",
    thresholds: Sequence[float] = (0.8,),
    per: Period | timedelta | None = None,
    timezone: str = "UTC",
    decisions_per_hour: int | None = None,
    store: KeepsBudgets | None = None,
) -> Callable[Parameters, Result]: ...


@overload
def budget(
    *,
    tokens: int | None = None,
    cost: Decimal | float | None = None,
    steps: int | None = None,
    turns: int | None = None,
    tool_calls: int | None = None,
    seconds: float | None = None,
    name: str | None = None,
    max_output_tokens: int | None = None,
    prices: Prices | None = None,
    on_exceeded: OnExceeded = "fail",
    thresholds: Sequence[float] = (0.8,),
    per: Period | timedelta | None = None,
    timezone: str = "UTC",
    decisions_per_hour: int | None = None,
    store: KeepsBudgets | None = None,
) -> "Budget": ...


def budget(
    function: Callable[..., Any] | None = None,
    /,
    *,
    tokens: int | None = None,
    cost: Decimal | float | None = None,
    steps: int | None = None,
    turns: int | None = None,
    tool_calls: int | None = None,
    seconds: float | None = None,
    name: str | None = None,
    max_output_tokens: int | None = None,
    prices: Prices | None = None,
    on_exceeded: OnExceeded = "fail",
    thresholds: Sequence[float] = (0.8,),
    per: Period | timedelta | None = None,
    timezone: str = "UTC",
    decisions_per_hour: int | None = None,
    store: KeepsBudgets | None = None,
) -> Any:
    """Limit tokens, cost, time and other resources.

        async with nh.run(executor, budget=nh.budget(cost=2)): ...
        with nh.scope(budget=total, step_budget=nh.budget(turns=10)): ...

        with nh.budget(tokens=100_000) as reading:      # `async with` does the same
            await read(papers)
        print(reading.spent.tokens, reading.cost)

        @nh.budget(tokens=20_000)                       # a new account for each call
        async def read(paper: Paper) -> Summary: ...

        cheap = nh.budget(summarize, tokens=20_000)     # the same for an existing function

        support = nh.budget(cost=20, per="day", store=store, name="support")    # of all processes together

    All budgets that are active for a step apply. Each model request reserves its upper bound in all of them
    before it is sent, in all or in none. The unused part is returned when it ends, also after an error.

    Args:
        function: A function whose calls get such a budget each; None to return the budget itself.
        tokens: Tokens sent and received.
        cost: US dollars.
        steps: Steps started.
        turns: Model requests.
        tool_calls: Tool calls executed.
        seconds: Seconds for which the budget is active. Steps inside are cancelled when they are over;
            plain Python code between them is not interrupted (`nighthawk_async.deadline` does that).
        name: The name of the budget in errors and traces; None to use its limits.
        max_output_tokens: The maximum tokens of a response, for requests whose settings do not limit it.
        prices: The prices of models: a mapping of model ids to prices, or a function that returns US dollars,
            or None for unknown, given a model id and a usage. It also applies to budgets inside, and takes
            precedence over the prices that the library knows.
        on_exceeded: The behaviour when the budget runs out: with `fail`, work without room fails; with
            `conclude`, the last request that fits tells the model to end the block. `conclude` needs a limit
            other than `steps` and `seconds`, which fail in any case.
        thresholds: Fractions of each limit, more than 0 and at most 1, that hooks and traces report when they
            are spent.
        per: The window of time in which the limits hold, in a budget that all processes with the same store
            and name share: the `hour`, `day` or `month` of the calendar, or a timedelta for a rolling window,
            which is the time before each moment. It limits no `seconds`. None for a budget that is not
            renewed.
        timezone: The time zone of the calendar, by its IANA name.
        decisions_per_hour: Steps that begin in any 60 minutes, by all processes together.
        store: The store that keeps a shared budget, made by `nighthawk_async.journal.open`.

    Returns:
        The budget, whose account can be read at any time, also afterwards; or the function, with the same
        signature.

    Raises:
        NighthawkError: An argument has a bad value, or nothing is limited.
        TypeError: The function cannot be called, or is a generator.
        BudgetExceededError: Raised inside, by work without room. It is never retried.
    """
    made = _made(
        store,
        checked_terms(
            limits={
                "tokens": tokens,
                "cost": cost,
                "steps": steps,
                "turns": turns,
                "tool_calls": tool_calls,
                "seconds": seconds,
            },
            name=name,
            max_output_tokens=max_output_tokens,
            prices=prices,
            on_exceeded=on_exceeded,
            thresholds=thresholds,
            per=per,
            timezone=timezone,
            decisions_per_hour=decisions_per_hour,
        ),
    )
    return made if function is None else made(function)


def _made(store: object, terms: BudgetTerms) -> "Budget":
    """Return the budget of terms, which a store keeps where they have windows.

    Raises:
        NighthawkError: One of the two is missing.
    """
    if store is None:
        if terms.shared:
            raise NighthawkError(
                "A budget with per or decisions_per_hour is kept in a store: give "
                "store=nighthawk_async.journal.open(…)."
            )
        return Budget(terms)
    if not terms.shared:
        raise NighthawkError(
            "A store keeps budgets by windows of time: give per='hour', 'day', 'month' or a timedelta, or "
            "decisions_per_hour."
        )
    if not isinstance(store, KeepsBudgets):
        raise NighthawkError(f"store is made by nighthawk_async.journal.open, not {store!r}.")
    return Budget(terms, store.open_budget(terms.name, terms.shared))


class Budget:
    """A budget and its account. Made by `budget`.

    As a context manager it is active for a `with` block within a run. Several tasks and threads may enter it
    at once, and share the account. A pickle holds the limits and the spent amounts: the unpickled budget has
    an account of its own, separate from this one.

    A budget that is kept in a store is that of all processes: its amounts are those of the present windows,
    and reading them blocks while the store is read. `usage` and `usage_by_model` are those of this object.

    Args:
        terms: The terms.
        ledger: The ledger of a budget that is kept in a store; None for another one.
    """

    __slots__ = ("account",)

    def __init__(self, terms: BudgetTerms, ledger: Ledger | None = None) -> None:
        self.account = BudgetAccount(terms, ledger=ledger)

    def __repr__(self) -> str:
        if self.account.terms.shared:
            shared = ", ".join(
                f"{each.resource}={each.limit} per {each.window}" for each in self.account.terms.shared
            )
            return f"budget({shared}, name={self.name!r})"
        limits = ", ".join(f"{resource}={limit}" for resource, limit in self.limits.limited())
        return f"budget({limits}, name={self.name!r})"

    @property
    def name(self) -> str:
        """Its name in errors and traces."""
        return self.account.terms.name

    @property
    def limits(self) -> BudgetLimits:
        """The limits; None where there is none."""
        return self.account.terms.limits

    @property
    def spent(self) -> BudgetAmounts:
        """The spent amounts."""
        return self.account.spent

    @property
    def reserved(self) -> BudgetAmounts:
        """The amounts reserved for model requests in flight."""
        return self.account.reserved

    @property
    def remaining(self) -> BudgetLimits:
        """The amounts neither spent nor reserved; None where there is no limit."""
        return self.account.remaining

    @property
    def usage(self) -> Usage:
        """The usage of model requests."""
        return self.account.meter.usage

    @property
    def usage_by_model(self) -> Mapping[str, Usage]:
        """The usage of model requests, by model id; a snapshot."""
        return self.account.meter.usage_by_model

    @property
    def cost(self) -> Decimal:
        """The cost so far in US dollars, as far as it is known."""
        return self.account.spent.cost

    def fresh(self) -> "Budget":
        """Return a new budget with the same terms and nothing spent; this one, if it is kept in a store."""
        return self if self.account.ledger is not None else Budget(self.account.terms)

    def __enter__(self) -> "Budget":
        """Make it active. Where it already is, nothing changes.

        Raises:
            NighthawkError: No run is active.
        """
        environment = get_environment()
        policies = with_accounts(environment.policies, self.account)
        keep_refusals_from_model()
        with ExitStack() as stack:
            stack.enter_context(counting_time_of_lives((self.account,)))
            stack.enter_context(using_environment(replace(environment, policies=policies)))
            _entered.set((*_entered.get(), (self, stack.pop_all())))
        return self

    def __exit__(self, *exc_details: object) -> None:
        """End the block in which it is active.

        Raises:
            NighthawkError: It was entered in another task or thread, for example in a generator that another
                task closes.
        """
        entered = _entered.get()
        own = max((position for position, each in enumerate(entered) if each[0] is self), default=None)
        message = f"{self!r} is left in another task or thread than it was entered in, where it stays active."
        if own is None:
            raise NighthawkError(message)
        _, stack = entered[own]
        _entered.set((*entered[:own], *entered[own + 1 :]))
        try:
            stack.close()
        except ValueError as error:  # a context variable is set back where it was set
            raise NighthawkError(message) from error

    async def __aenter__(self) -> "Budget":
        return self.__enter__()

    async def __aexit__(self, *exc_details: object) -> None:
        self.__exit__(*exc_details)

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Give each call of a function an account of its own.

        Args:
            function: The function, async or not.

        Raises:
            TypeError: It cannot be called, or it is a generator, which yields values while it runs.
        """
        return cast("Callable[Parameters, Result]", wrap_calls(function, self.fresh, subject="A budget"))


def with_budget(policies: Policies, budget: Budget | None, inner: InnerScope) -> Policies:
    """Add the `budget` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before; their budgets stay active.
        budget: The budget; None for no change.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is not a budget.
    """
    return policies if budget is None else with_accounts(policies, _checked_budget(budget, "budget").account)


def with_step_budget(policies: Policies, budget: Budget | None, inner: InnerScope) -> Policies:
    """Add the `step_budget` argument of `run` and `scope` to the policies; see `with_budget`."""
    if budget is None:
        return policies
    terms = _checked_budget(budget, "step_budget").account.terms
    if terms.shared:
        raise NighthawkError(
            f"budget {terms.name} is kept in a store and shared by all steps: give it as budget, not as "
            "step_budget."
        )
    return with_step_terms(policies, terms)


def _checked_budget(given: object, argument: str) -> Budget:
    if not isinstance(given, Budget):
        raise NighthawkError(f"{argument} must be a budget, made by nighthawk_async.budget, not {given!r}.")
    return given
