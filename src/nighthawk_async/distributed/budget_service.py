"""The service "budgets" in the program: calls on workers get loans from the accounts of the caller's scope.

Each model request of a worker has one loan, made before it is sent: its upper bound, reserved in the caller's
accounts as for a request of the program. The worker reports at once what it has consumed, and the rest is
returned. The loans of a lost worker count as spent, because nobody knows what it has sent.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

from ..errors import BudgetExceededError
from ..kernel.environment import Environment
from ..kernel.policy import Position
from ..policies.budgets.account import BudgetAccount, Payer
from ..policies.budgets.lending import LentReservation, charge_usage, reserve_in_turn
from ..policies.budgets.lives import counting_time_of_lives
from ..policies.budgets.notices import note_refusal, report_thresholds
from ..policies.budgets.policy import BudgetPolicy
from ..policies.budgets.reservation import Entry, Reservation
from ..policies.budgets.shared import RequestKey, SharedReservation, numbered_key
from ..policies.budgets.steps import check_foreign_turn
from ..policies.budgets.terms import Amounts
from ..types.usage import Usage
from .budget_messages import (
    CheckTurn,
    Keep,
    LentAccount,
    Question,
    Renew,
    Report,
    ReportThresholds,
    Reserve,
    Reserved,
    Return,
    Settle,
    Spend,
    WireAmounts,
    breach_to_wire,
    decode_question,
    decode_report,
    from_wire,
)
from .counting import EACH_TIME
from .grants import Grants
from .messages import encode
from .services import ProgramPart, SendOrder
from .usage import add_usage

_UNKNOWN_USAGE = Usage(requests=1, unpriced_requests=1, is_complete=False)
"""The usage of a request of a lost worker."""

_BUSY = Payer()
_BUSY.requests = 1
"""A payer with a reservation, so that nobody waits."""


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_BudgetsPart | None":
    """Begin to lend, where the scope of the caller has a budget."""
    if environment is None or not environment.policies.has(Position.BUDGETS):
        return None
    policy = environment.policies.find(BudgetPolicy)
    return _BudgetsPart(environment, policy) if policy is not None and policy.accounts else None


class _Loan(NamedTuple):
    """A reservation for a worker.

    Args:
        accounts: The ids of the accounts, in the order of the reservation.
        reservation: The reservation.
        model_name: The model id; empty for another charge than a model request.
        key: The key by which it counts; see `counting`.
        is_recorded: Whether the response to the request is recorded, so that nothing is sent.
    """

    accounts: tuple[str, ...]
    reservation: Reservation | LentReservation | SharedReservation
    model_name: str
    key: str
    is_recorded: bool

    def of(self, amounts: WireAmounts) -> list[Amounts]:
        """Return amounts in the order of the reservation."""
        return [from_wire(amounts.get(account, {})) for account in self.accounts]


class _BudgetsPart(ProgramPart):
    """Lends to one placement of a call.

    Args:
        environment: The environment of the caller.
        policy: Its budgets.
    """

    def __init__(self, environment: Environment, policy: BudgetPolicy) -> None:
        self._environment = environment
        self._accounts = {account.id: account for account in policy.accounts}
        self._payers = policy.payers
        self._loans: Grants[_Loan] = Grants(lambda loan: loan.reservation.cancel())
        self._time = ExitStack()
        self._time.enter_context(counting_time_of_lives(policy.accounts))

    def setup(self) -> bytes:
        return encode(
            [LentAccount(account.id, account.watch.elapsed_seconds) for account in self._accounts.values()]
        )

    async def answer(self, body: bytes) -> bytes:
        try:
            question: Question = decode_question(body)
            match question:
                case Reserve():
                    return encode(await self._lend(question))
                case Renew(number, kept, added):
                    return encode(await self._renew(number, kept, added))
                case CheckTurn():
                    await check_foreign_turn(tuple(self._accounts.values()))
                case ReportThresholds():
                    await report_thresholds(tuple(self._accounts.values()))
        except BudgetExceededError as error:
            note_refusal(error)
            raise
        return b""

    def note(self, body: bytes) -> None:
        report: Report = decode_report(body)
        match report:
            case Keep(number, kept):
                loan = self._loans.find(number)
                if loan is not None:
                    loan.reservation.keep(loan.of(kept))
            case Settle(number, spent, model_name, usage):
                loan = self._loans.take(number)
                if loan is not None:
                    loan.reservation.settle(loan.of(spent), model_name, usage)
                    self._note_counted(loan, usage if loan.key != EACH_TIME else None)
            case Return(number):
                self._loans.return_one(number)
            case Spend():
                self._spend(report)

    def end(self, *, is_lost: bool) -> None:
        for loan in self._loans.end():
            if loan.is_recorded:  # nothing was sent, and the next worker charges it
                loan.reservation.cancel()
                continue
            usage = _UNKNOWN_USAGE if loan.model_name else None
            loan.reservation.settle(loan.reservation.amounts, loan.model_name, usage)
            self._note_counted(loan, usage)
        self._time.close()

    def _note_counted(self, loan: _Loan, usage: Usage | None) -> None:
        """Note that a loan has counted, with the usage of its request; None where that is reported alone."""
        self.counted.add(loan.key)
        if usage is not None:
            add_usage(self._environment, loan.model_name, usage)

    async def _lend(self, question: Reserve) -> Reserved:
        payers = (*self._payers, *(() if question.may_wait else (_BUSY,)), Payer())
        entries = self._entries(question.asked)
        reservation = await reserve_in_turn(
            entries, model_name=question.model_name, payers=payers, key=self._request_key(question)
        )
        accounts = tuple(question.asked)
        loan = _Loan(accounts, reservation, question.model_name, question.key, question.is_recorded)
        self._loans.add(question.loan, loan)
        return Reserved(breach_to_wire(reservation.next_breach))

    def _request_key(self, question: Reserve) -> RequestKey:
        """Return how a request or a charge of the worker counts in the lives of the run."""
        if question.key == EACH_TIME:
            return RequestKey("", is_recorded=False, is_charge=not question.model_name)
        if not question.model_name:
            name = numbered_key(self._environment.journal, question.key)
            return RequestKey(name, is_recorded=False, is_charge=True)
        name = f"{self._environment.execution_ref.run_id} {question.key}"
        return RequestKey(name, is_recorded=question.is_recorded)

    async def _renew(self, number: int, kept: WireAmounts, added: WireAmounts) -> bool:
        loan = self._loans.find(number)
        if loan is None:  # settled meanwhile: the asking code was cancelled
            return False
        answer = loan.reservation.renew(loan.of(kept), loan.of(added))
        return answer if isinstance(answer, bool) else await answer

    def _spend(self, spend: Spend) -> None:
        self.counted.add(spend.key)
        entries = self._entries(spend.spent)
        charge_usage(entries, spend.model_name, spend.usage, is_foreign=spend.is_foreign)
        for entry in entries:
            if spend.is_foreign and "cost" not in entry.amounts:
                entry.account.has_unpriced = True

    def _entries(self, amounts: WireAmounts) -> list[Entry]:
        accounts: Mapping[str, BudgetAccount] = self._accounts
        return [Entry(accounts[account], from_wire(given)) for account, given in amounts.items()]
