"""The service "budgets" on a worker: the accounts of the caller's scope, which are kept in the program."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from ..errors import BudgetExceededError
from ..kernel.environment import Environment
from ..policies.budgets.account import BudgetAccount, counting_time
from ..policies.budgets.lender import Loan
from ..policies.budgets.policy import BudgetPolicy
from ..policies.budgets.terms import Amounts
from ..types.usage import Usage
from . import budget_messages as wire
from .budget_messages import to_wire
from .counting import EACH_TIME
from .grants import ask_for_grant
from .messages import encode
from .services import CallChannel


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Charge a call on a worker to the accounts in the program."""
    assert environment is not None, "budgets are those of a run"
    policy = environment.policies.find(BudgetPolicy)
    assert policy is not None, "the terms cross with the scope of the caller"
    lender = _ProgramLender(channel)
    accounts: list[BudgetAccount] = []
    for known, lent in zip(policy.accounts, wire.decode_accounts(setup), strict=True):
        account = BudgetAccount(known.terms, account_id=lent.id, lender=lender)
        account.watch.add(lent.seconds)
        accounts.append(account)
    lender.watch(accounts)
    policies = environment.policies.with_policy(replace(policy, accounts=tuple(accounts)))
    with counting_time(accounts):
        yield replace(environment, policies=policies)


class _ProgramLender:
    """The way to the accounts in the program; a `Lender`.

    Args:
        channel: The channel of the call.
    """

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel
        self._numbers = count()
        self._watched: dict[str, frozenset[str]] = {}
        self._has_time = False
        self._may_have_passed = False

    def watch(self, accounts: list[BudgetAccount]) -> None:
        """Take notice of what may pass a threshold of these accounts."""
        for account in accounts:
            if account.terms.thresholds:
                limits = frozenset(account.terms.limits.named())
                self._watched[account.id] = limits
                self._has_time = self._has_time or "seconds" in limits

    async def reserve(self, asked: Mapping[str, Amounts], *, model_name: str, may_wait: bool) -> Loan:
        key = self._take_key(asked, model_name)
        if key is None:
            return _CountedLoan()
        number = next(self._numbers)
        is_recorded = bool(model_name) and self._channel.counting.has_response()
        question = wire.Reserve(number, to_wire(asked), model_name, may_wait, key, is_recorded)
        giving_back = encode(wire.Return(number))
        answer = await ask_for_grant(self._channel, wire.TOPIC, encode(question), giving_back)
        breach = wire.breach_from_wire(wire.decode_reserved(answer).next_breach)
        return _ProgramLoan(self, number, key, breach)

    def spend(
        self, spent: Mapping[str, Amounts], model_name: str, usage: Usage | None, *, is_foreign: bool
    ) -> None:
        key = EACH_TIME if is_foreign else self._take_key(spent, "")
        if key is not None:
            self.note_spent(spent)
            self.tell(wire.Spend(key, to_wire(spent), model_name, usage, is_foreign))

    def _take_key(self, amounts: Mapping[str, Amounts], model_name: str) -> str | None:
        """Return the key of a charge; None for one that has counted before."""
        if model_name:
            return self._channel.counting.take_key("request")
        if any(list(each) == ["turns"] for each in amounts.values()):
            return EACH_TIME  # a turn of the user's own agent, which takes all of its turns again
        return self._channel.counting.take_key("charge")

    def note_settled(self, key: str) -> None:
        """Note that the charge of a request has reported its usage as well."""
        self._channel.counting.note_settled(key)

    async def check_foreign_turn(self) -> None:
        await self._channel.ask(wire.TOPIC, encode(wire.CheckTurn()))

    async def report_thresholds(self) -> None:
        if self._may_have_passed or self._has_time:
            self._may_have_passed = False
            await self._channel.ask(wire.TOPIC, encode(wire.ReportThresholds()))

    async def renew(self, number: int, kept: Mapping[str, Amounts], added: Mapping[str, Amounts]) -> bool:
        """Ask for more; see `Loan.renew`."""
        question = wire.Renew(number, to_wire(kept), to_wire(added))
        return wire.decode_room(await self._channel.ask(wire.TOPIC, encode(question)))

    def tell(self, report: wire.Report) -> None:
        """Report to the program."""
        self._channel.tell(wire.TOPIC, encode(report))

    def note_spent(self, spent: Mapping[str, Amounts]) -> None:
        """Note that thresholds may have been passed."""
        for account, amounts in spent.items():
            if not self._watched.get(account, frozenset()).isdisjoint(amounts):
                self._may_have_passed = True


class _ProgramLoan:
    """A reservation in the program; a `Loan`.

    Args:
        lender: The way to the accounts.
        number: Its number.
        key: The key by which it counts.
        next_breach: The reason why there is no room for another one.
    """

    def __init__(
        self, lender: _ProgramLender, number: int, key: str, next_breach: BudgetExceededError | None
    ) -> None:
        self.next_breach = next_breach
        self._lender = lender
        self._number = number
        self._key = key

    async def renew(self, kept: Mapping[str, Amounts], added: Mapping[str, Amounts]) -> bool:
        return await self._lender.renew(self._number, kept, added)

    def keep(self, kept: Mapping[str, Amounts]) -> None:
        self._lender.tell(wire.Keep(self._number, to_wire(kept)))

    def settle(self, spent: Mapping[str, Amounts], model_name: str, usage: Usage | None) -> None:
        self._lender.note_spent(spent)
        self._lender.note_settled(self._key)
        self._lender.tell(wire.Settle(self._number, to_wire(spent), model_name, usage))

    def cancel(self) -> None:
        self._lender.tell(wire.Return(self._number))


class _CountedLoan:
    """The reservation of what has counted when the call was placed before; a `Loan`."""

    next_breach = None

    async def renew(self, kept: Mapping[str, Amounts], added: Mapping[str, Amounts]) -> bool:
        return True

    def keep(self, kept: Mapping[str, Amounts]) -> None:
        pass

    def settle(self, spent: Mapping[str, Amounts], model_name: str, usage: Usage | None) -> None:
        pass

    def cancel(self) -> None:
        pass
