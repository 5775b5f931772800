"""The seconds of budgets over all lives of a run with a journal."""

from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ...parallel.decided_limits import begin_decided_limit, limited_blocks
from .account import BudgetAccount, counting_time


@dataclass(frozen=True, slots=True)
class _AccountTime:
    """The time of an account, as a limit whose seconds in earlier lives count; see `Limited`.

    Args:
        account: The account.
    """

    account: BudgetAccount

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return self.account.remaining_seconds <= 0

    def expire(self) -> None:
        """Do nothing: the steps of the account end by themselves."""

    def shorten(self, seconds: float) -> None:
        """Add the seconds of earlier lives to those spent."""
        self.account.watch.add(seconds)


@contextmanager
def counting_time_of_lives(accounts: Iterable[BudgetAccount]) -> Generator[None, None, None]:
    """Count the time of accounts during the `with` statement, and that of the same block in earlier lives.

    Args:
        accounts: The accounts.
    """
    accounts = tuple(accounts)
    counted = limited_blocks()
    with counting_time(accounts), ExitStack() as stack:
        for account in accounts:
            time = _AccountTime(account)
            if account.terms.limits.seconds is None or time in counted:
                continue
            limit = begin_decided_limit(time, kind="budget", place=None)
            if limit is not None:
                stack.callback(limit.leave)
        yield
