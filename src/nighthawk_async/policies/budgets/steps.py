"""Budgets of steps, turns and tool calls.

Model requests are the business of `budgets.request`.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from math import inf
from typing import TypeVar

import anyio

from ...errors import BudgetExceededError, ConfigurationError, ToolBoundaryError
from .account import BudgetAccount, breached_account, counting_time
from .notices import record_exceeded, report_thresholds
from .reservation import charge, find_full
from .terms import Resource

Result = TypeVar("Result")

_LEAST_COST = Decimal("0.000001")


def begin_in_time(
    accounts: Sequence[BudgetAccount],
    work: Callable[[Callable[[], None]], Awaitable[Result]],
    begin: Callable[[], None],
) -> Awaitable[Result]:
    """Carry something out that must wait to begin, but no longer than the budgets have seconds left.

    Args:
        accounts: The accounts.
        work: The work. It is given a function to call when it begins; then time limits it no more.
        begin: The function to call then.

    Raises:
        BudgetExceededError: The time of a budget is over, and it has not begun.
    """
    timed = _timed(accounts)
    return _begin_in_time(timed, work, begin) if timed else work(begin)


async def _begin_in_time(
    timed: Sequence[BudgetAccount],
    work: Callable[[Callable[[], None]], Awaitable[Result]],
    begin: Callable[[], None],
) -> Result:
    with counting_time(timed):  # also for a task that has outlived the block of the budget
        _check_time(timed)
        shortest = min(timed, key=lambda account: account.remaining_seconds)
        deadline = anyio.current_time() + shortest.remaining_seconds
        with anyio.CancelScope(deadline=deadline) as scope:

            def begin_now() -> None:
                if scope.cancel_called:
                    raise _recorded(shortest.time_breach())
                scope.deadline = inf
                begin()

            return await work(begin_now)
        assert scope.cancelled_caught
        raise _recorded(shortest.time_breach())


def carry_out_in_time(
    accounts: Sequence[BudgetAccount], work: Callable[[], Awaitable[Result]]
) -> Awaitable[Result]:
    """Carry something out, but no longer than the budgets have seconds left.

    What ends later than that without having noticed counts as late too, whatever it gave or raised.

    Args:
        accounts: The accounts.
        work: The work.

    Raises:
        BudgetExceededError: The time of a budget is over.
    """
    timed = _timed(accounts)
    return _carry_out_in_time(timed, work) if timed else work()


async def _carry_out_in_time(timed: Sequence[BudgetAccount], work: Callable[[], Awaitable[Result]]) -> Result:
    with counting_time(timed):
        _check_time(timed)
        shortest = min(timed, key=lambda account: account.remaining_seconds)
        deadline = anyio.current_time() + shortest.remaining_seconds
        with anyio.CancelScope(deadline=deadline) as scope:
            try:
                result = await work()
            except Exception as error:
                _check_time(timed, error)
                raise
            _check_time(timed)
            return result
        assert scope.cancelled_caught
        raise _recorded(shortest.time_breach())


def charge_step(accounts: Sequence[BudgetAccount]) -> None:
    """Charge a step that begins now.

    Args:
        accounts: The accounts of the step.

    Raises:
        BudgetExceededError: A budget allows no further step.
    """
    _charge(accounts, "steps")


async def charge_tool_call(accounts: tuple[BudgetAccount, ...], name: str) -> None:
    """Charge a tool call that is about to be carried out.

    Args:
        accounts: The accounts of the step.
        name: The name of the tool.

    Raises:
        ToolBoundaryError: A budget allows no further one, and wants the step to be concluded.
        BudgetExceededError: A budget allows no further one.
        HookError: A hook failed.
    """
    try:
        _charge(accounts, "tool_calls")
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


def check_foreign_turn(accounts: tuple[BudgetAccount, ...]) -> None:
    """Refuse a turn of an agent of the user's own, whose requests cannot be measured before they are sent.

    Args:
        accounts: The accounts of the step.

    Raises:
        BudgetExceededError: A budget allows no further turn, or has nothing left.
        ConfigurationError: Under a budget of cost, the agent used a model that nobody knows the price of.
    """
    for account in accounts:
        if account.has_unpriced and account.terms.limits.cost is not None:
            raise ConfigurationError(
                f"budget {account.terms.name} limits cost, but an agent used a model that nobody knows the "
                "price of; say it with prices=…, or let the agent report the cost with the usage."
            )
    error = find_full(accounts, {"tokens": 1, "cost": _LEAST_COST, "turns": 1})
    if error is not None:
        raise _recorded(error)


async def begin_foreign_turn(accounts: tuple[BudgetAccount, ...]) -> None:
    """Begin a turn of an agent of the user's own; see `check_foreign_turn`.

    Args:
        accounts: The accounts of the step.

    Raises:
        BudgetExceededError: A budget allows no further turn, or has nothing left.
        ConfigurationError: Under a budget of cost, the agent used a model that nobody knows the price of.
        HookError: A hook failed.
    """
    check_foreign_turn(accounts)
    _charge(accounts, "turns")
    await report_thresholds(accounts)


def _timed(accounts: Sequence[BudgetAccount]) -> list[BudgetAccount]:
    return [account for account in accounts if account.terms.limits.seconds is not None]


def _charge(accounts: Sequence[BudgetAccount], resource: Resource) -> None:
    try:
        charge(accounts, resource)
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
