"""Budgets as a policy: time, steps, model requests and tool calls are charged to their accounts."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import ClassVar, Literal

from ...causes import with_causes
from ...errors import BudgetExceededError, NighthawkError
from ...kernel.calls import below_place
from ...kernel.environment import find_environment, get_environment
from ...kernel.fold import Events, OpenRequest, StepEnd, StepProceed, ToolCallProceed, with_end_reported
from ...kernel.policy import Metering, ModelCall, Policies, Position
from ...kernel.step import Step
from ...ports import AttemptsSource
from ...types.messages import ToolCall, ToolResult
from ...types.model import ModelEvent
from ...types.usage import Usage
from .account import BudgetAccount, Payer, breached_account
from .lives import counting_time_of_lives
from .notices import concluding_request, record_exceeded, report_thresholds
from .request import BudgetedRequest, charge_foreign_usage, open_request, with_output_limit
from .steps import (
    begin_foreign_turn,
    begin_in_time,
    charge_step,
    charge_tool_call,
    check_foreign_turn,
    run_in_time,
    timed_accounts,
)
from .terms import BudgetTerms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BudgetPolicy(Metering):
    """Charges the consumption of steps to budgets.

    Args:
        accounts: The active accounts, outermost first.
        step_terms: The terms of the accounts that each step gets for itself.
        payers: The steps in progress that are charged, outermost first.
    """

    accounts: tuple[BudgetAccount, ...] = ()
    step_terms: tuple[BudgetTerms, ...] = ()
    payers: tuple[Payer, ...] = ()

    position: ClassVar[Position] = Position.BUDGETS
    holds_in_inner_runs: ClassVar[bool] = True

    def on_workers(self) -> "BudgetPolicy":
        """Return the policy as calls on workers get it: with the terms of the accounts, and nothing spent."""
        accounts = tuple(BudgetAccount(account.terms) for account in self.accounts)
        return replace(self, accounts=accounts, payers=())

    def scope(self, kind: Literal["run", "scope"]) -> AbstractContextManager[None]:
        """Return the context in which the time of the accounts passes."""
        keep_refusals_from_model()
        return counting_time_of_lives(self.accounts)

    def prepare(self, step: Step) -> None:
        """Limit the waiting of the step to the remaining seconds, and give it accounts of its own."""
        if timed := timed_accounts(self.accounts):
            step.limit_wait = partial(begin_in_time, timed)
        step.host_errors = (*step.host_errors, find_refusal)
        accounts = (*self.accounts, *map(BudgetAccount, self.step_terms))
        if accounts:
            own = replace(self, accounts=accounts, payers=(*self.payers, Payer()))
            step.policies = step.policies.with_policy(own)

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        """Charge the step, run it within the remaining seconds, and report thresholds that it has passed."""
        if not self.accounts:
            return await proceed()
        proceed.at_begin(self._charge_step)
        end = await run_in_time(self.accounts, proceed)
        await report_thresholds(self.accounts)
        return end

    async def _charge_step(self) -> None:
        await charge_step(self.accounts)
        await report_thresholds(self.accounts)

    def around_request(self, call: ModelCall, open_request: OpenRequest) -> Events:
        """Reserve the request in every account, and report thresholds that it has passed."""
        return _ChargedResponse(self, call, open_request) if self.accounts else open_request()

    async def report_thresholds(self, call: ModelCall) -> None:
        """Report thresholds that a request has passed."""
        await report_thresholds(self.accounts)

    async def reserve(self, call: ModelCall) -> None:
        """Reserve the request in every account, and mark it when it is the last one that fits.

        Raises:
            BudgetExceededError: There is no room for it, or it would take that of the last one.
        """
        call.request = with_output_limit(call.request, call.model, self.accounts)
        environment = get_environment()
        try:
            with nullcontext() if call.place is None else below_place(call.place):
                budgeted = await open_request(
                    call.model,
                    call.request,
                    self.accounts,
                    executor=environment.step_executor,
                    payers=self.payers,
                )
        except BudgetExceededError as error:
            record_exceeded(error)
            raise
        call.charges = _Charges(budgeted)
        call.request = budgeted.request
        if budgeted.next_breach is not None:
            if not call.may_be_last:
                record_exceeded(budgeted.next_breach)
                raise budgeted.next_breach
            call.request = concluding_request(call.request, call.model, environment.step)

    @property
    def is_charging(self) -> bool:
        """Whether there are accounts."""
        return bool(self.accounts)

    async def check_turn(self) -> None:
        """Check that there is room for a turn of an agent; see `check_foreign_turn`."""
        await check_foreign_turn(self.accounts)

    async def begin_turn(self) -> None:
        """Charge a turn of an agent."""
        await begin_foreign_turn(self.accounts)

    def charge(self, model_name: str, usage: Usage) -> Usage:
        """Charge what an agent reports; see `charge_foreign_usage`."""
        return charge_foreign_usage(self.accounts, model_name, usage)

    async def around_tool_call(self, call: ToolCall, proceed: ToolCallProceed) -> ToolResult:
        """Charge the call."""
        if self.accounts and not proceed.is_answer:
            await charge_tool_call(self.accounts, call.name)
        return await proceed()


class _ChargedResponse(AbstractAsyncContextManager[AsyncIterator[ModelEvent]]):
    """The response to a request that is reserved before it is sent."""

    __slots__ = ("_call", "_events", "_open_request", "_policy")

    def __init__(self, policy: BudgetPolicy, call: ModelCall, open_request: OpenRequest) -> None:
        self._policy = policy
        self._call = call
        self._open_request = open_request

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        await self._policy.reserve(self._call)
        self._events = with_end_reported(self._call, self._open_request, self._policy.report_thresholds)
        return await self._events.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._events.__aexit__(exc_type, exc, traceback)


class _Charges:
    """The charges of one request; see `model_call.RequestCharges`."""

    __slots__ = ("_budgeted",)

    def __init__(self, budgeted: BudgetedRequest) -> None:
        self._budgeted = budgeted

    @property
    def pricing_error(self) -> Exception | None:
        return self._budgeted.pricing_error

    def note(self, event: ModelEvent) -> None:
        self._budgeted.note(event)

    def check_resend(self, attempts: AttemptsSource) -> bool | Awaitable[bool]:
        try:
            return self._budgeted.check_resend(attempts)
        except BudgetExceededError as error:
            record_exceeded(error)
            raise

    def settle(self, reported: Usage | None, *, may_have_consumed: bool) -> Usage:
        return self._budgeted.settle(reported, may_have_consumed=may_have_consumed)


def active_accounts() -> tuple[BudgetAccount, ...]:
    """Return the active accounts, outermost first."""
    environment = find_environment()
    policy = None if environment is None else environment.policies.find(BudgetPolicy)
    return () if policy is None else policy.accounts


def find_refusal(error: BaseException) -> BudgetExceededError | None:
    """Return the refusal by an active account that caused an error; None for other errors.

    A model has the same budget as its step and cannot help. A refusal by a budget that was active only inside
    the step is an ordinary failure.
    """
    accounts = active_accounts()
    refusals = (each for each in with_causes(error) if isinstance(each, BudgetExceededError))
    return next((each for each in refusals if breached_account(each, accounts) is not None), None)


def keep_refusals_from_model() -> None:
    """Let refusals leave the step in progress, if any: its executor may have entered a budget itself.

    Where a tool has entered it, it is not active any more when the model of the step is to be informed.
    """
    environment = find_environment()
    step = None if environment is None else environment.step
    if step is not None and find_refusal not in step.host_errors:
        step.host_errors = (*step.host_errors, find_refusal)


def with_accounts(policies: Policies, *accounts: BudgetAccount) -> Policies:
    """Add accounts to the policies; those that are already active are not added again."""
    policy = policies.find(BudgetPolicy) or BudgetPolicy()
    new = tuple(
        account
        for account in accounts
        if account not in policy.accounts and not _is_active(account, policy.accounts)
    )
    return policies.with_policy(replace(policy, accounts=(*policy.accounts, *new))) if new else policies


def _is_active(account: BudgetAccount, accounts: Sequence[BudgetAccount]) -> bool:
    """Whether the shared budget of an account is active through another account.

    Raises:
        NighthawkError: It is, with other limits.
    """
    ledger = account.ledger
    same = [each for each in accounts if ledger and each.ledger and each.ledger.key == ledger.key]
    if any(each.terms.shared != account.terms.shared for each in same):
        raise NighthawkError(
            f"budget {account.terms.name} is active already, with other limits; give each budget a "
            "name of its own."
        )
    return bool(same)


def with_step_terms(policies: Policies, terms: BudgetTerms) -> Policies:
    """Add the terms of an account that each step gets for itself to the policies."""
    policy = policies.find(BudgetPolicy) or BudgetPolicy()
    return policies.with_policy(replace(policy, step_terms=(*policy.step_terms, terms)))
