"""Budgets of steps, turns and tool calls; `budgets.request` has those of model requests."""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from math import inf
from typing import TypeVar

import anyio

from ...errors import BudgetExceededError, ConfigurationError, ToolBoundaryError
from ...parallel.decided_limits import run_within
from .account import BudgetAccount, breached_account, counting_time, find_lender, own_accounts
from .lending import charge
from .notices import record_exceeded, report_thresholds
from .reservation import find_full
from .shared import check_shared_room
from .terms import Resource

Result = TypeVar("Result")

_LEAST_COST = Decimal("0.000001")


async def begin_in_time(
    timed: Sequence[BudgetAccount], execute: Callable[[Callable[[], None]], Awaitable[Result]]
) -> Result:
    """Execute a step that waits before it begins, and limit the wait to the remaining seconds of the budgets.

    Args:
        timed: The accounts with a limit of time; see `timed_accounts`.
        execute: Executes the step. It calls its argument when the step begins; then the limit ends.

    Raises:
        BudgetExceededError: The time of a budget was over before the step began.
    """
    with counting_time(timed):  # needed when the task has outlived the block of the budget
        _check_time(timed)
        shortest = min(timed, key=lambda account: account.remaining_seconds)
        deadline = anyio.current_time() + shortest.remaining_seconds
        with anyio.CancelScope(deadline=deadline) as scope:

            def begin() -> None:
                if scope.cancel_called:
                    raise _recorded(shortest.time_breach())
                scope.deadline = inf

            return await execute(begin)
        assert scope.cancelled_caught
        raise _recorded(shortest.time_breach())


def run_in_time(
    accounts: Sequence[BudgetAccount], work: Callable[[], Awaitable[Result]]
) -> Awaitable[Result]:
    """Run work within the remaining seconds of the budgets.

    Work that ends later without having noticed the cancellation is late too, whether it returned or raised.

    Args:
        accounts: The accounts.
        work: The work.

    Raises:
        BudgetExceededError: The time of a budget is over.
    """
    timed = timed_accounts(accounts)
    return _run_in_time(timed, work) if timed else work()


async def _run_in_time(timed: Sequence[BudgetAccount], work: Callable[[], Awaitable[Result]]) -> Result:
    with counting_time(timed):
        _check_time(timed)
        shortest = min(timed, key=lambda account: account.remaining_seconds)

        async def run() -> Result:
            try:
                result = await work()
            except Exception as error:
                _check_time(timed, error)
                raise
            _check_time(timed)
            return result

        done = await run_within(shortest.remaining_seconds, run, kind="budget_time")
        if done is not None:
            return done[0]
        raise _recorded(shortest.time_breach())


async def charge_step(accounts: Sequence[BudgetAccount]) -> None:
    """Charge a step that starts now.

    Args:
        accounts: The accounts of the step.

    Raises:
        BudgetExceededError: A budget allows no further step.
    """
    await _charge(accounts, "steps")


async def charge_tool_call(accounts: tuple[BudgetAccount, ...], name: str) -> None:
    """Charge a tool call that is about to be executed.

    Args:
        accounts: The accounts of the step.
        name: The name of the tool.

    Raises:
        ToolBoundaryError: A budget with `on_exceeded="conclude"` allows no further call.
        BudgetExceededError: Another budget allows no further call.
        HookError: A hook failed.
    """
    try:
        await _charge(accounts, "tool_calls")
    except BudgetExceededError as error:
        account = breached_account(error, accounts)
        if account is None or account.terms.on_exceeded != "conclude":
            raise
        raise ToolBoundaryError(
            kind="execution",
            message=f"{name} was not carried out: the budget allows no further tool calls",
            guidance="End the block now, with what you have.",
        ) from error
    await report_thresholds(accounts)


async def check_foreign_turn(accounts: tuple[BudgetAccount, ...]) -> None:
    """Check that there is room for a turn of an agent whose requests cannot be measured before they are sent.

    Args:
        accounts: The accounts of the step.

    Raises:
        BudgetExceededError: A budget allows no further turn, or has nothing left.
        ConfigurationError: A budget limits cost, and the agent used a model without a known price.
    """
    lender = find_lender(accounts)
    if lender is not None:
        await lender.check_foreign_turn()
        accounts = own_accounts(accounts)
    for account in accounts:
        if account.has_unpriced and account.terms.limits.cost is not None:
            raise ConfigurationError(
                f"budget {account.terms.name} limits cost, but an agent used a model without a known price; "
                "give it with prices=…, or let the agent report the cost with the usage."
            )
    error = find_full(accounts, {"tokens": 1, "cost": _LEAST_COST, "turns": 1})
    if error is not None:
        raise _recorded(error)
    await check_shared_room(accounts, {"tokens": 1, "cost": _LEAST_COST, "turns": 1})


async def begin_foreign_turn(accounts: tuple[BudgetAccount, ...]) -> None:
    """Charge a turn of an agent whose requests cannot be measured; see `check_foreign_turn`.

    Args:
        accounts: The accounts of the step.

    Raises:
        BudgetExceededError: A budget allows no further turn, or has nothing left.
        ConfigurationError: A budget limits cost, and the agent used a model without a known price.
        HookError: A hook failed.
    """
    await check_foreign_turn(accounts)
    await _charge(accounts, "turns")
    await report_thresholds(accounts)


def timed_accounts(accounts: Sequence[BudgetAccount]) -> list[BudgetAccount]:
    """Return the accounts with a limit of time."""
    return [account for account in accounts if account.terms.limits.seconds is not None]


async def _charge(accounts: Sequence[BudgetAccount], resource: Resource) -> None:
    try:
        await charge(accounts, resource)
    except BudgetExceededError as error:
        record_exceeded(error)
        raise


def _check_time(accounts: Sequence[BudgetAccount], cause: Exception | None = None) -> None:
    for account in accounts:
        if account.remaining_seconds <= 0:
            raise _recorded(account.time_breach()) from cause


def _recorded(error: BudgetExceededError) -> BudgetExceededError:
    record_exceeded(error)
    return error
