"""Approvals under random schedules: none without a quorum of different people, and nothing stays pending.

Time is virtual, so that answers, expiry and cancellation can meet at the same moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from hypothesis import given, strategies as st

from nighthawk_async.errors import ApprovalDeniedError, ApprovalExpiredError
from nighthawk_async.policies.people.approvals import Approval, request_approval
from nighthawk_async.policies.people.errors import AnswerRefusedError, RequestClosedError
from nighthawk_async.policies.people.request import ApprovalRequest
from tests.unit.policies.human_handlers import Handler, run_asking

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PEOPLE = ("ada", "bob", "cy", "eve")
ASKED = PEOPLE[:3]
MOMENTS = st.integers(0, 6)


@dataclass(frozen=True)
class Act:
    """Somebody answers at a moment, maybe from a thread, maybe having seen something else."""

    moment: int
    who: str
    approves: bool
    saw_it: bool


ACTS = st.lists(
    st.builds(
        Act,
        MOMENTS,
        st.sampled_from(PEOPLE),
        st.sampled_from((True, True, False)),
        st.sampled_from((True, True, True, False)),
    ),
    max_size=12,
)


@dataclass
class Model:
    """What ought to come of the answers, written another way: sets of names."""

    quorum: int
    for_it: set[str] = field(default_factory=set[str])
    status: str = "pending"

    def answer(self, act: Act) -> bool:
        """Take an answer; whether it counts."""
        if self.status != "pending" or act.who not in ASKED or (act.approves and not act.saw_it):
            return False
        if act.approves:
            self.for_it.add(act.who)
            self.status = "approved" if len(self.for_it) == self.quorum else "pending"
        elif act.who in self.for_it:
            self.for_it.remove(act.who)
        else:
            self.status = "denied"
        return True


@given(
    acts=ACTS,
    quorum=st.integers(1, 3),
    expires=st.none() | MOMENTS,
    cancelled_at=st.none() | MOMENTS,
    handler_stays=st.booleans(),
)
async def test_no_approval_without_a_quorum_and_nothing_stays_pending(
    acts: list[Act], quorum: int, expires: int | None, cancelled_at: int | None, handler_stays: bool
) -> None:
    async def decide(request: ApprovalRequest) -> None:
        if handler_stays:
            await request.wait_closed()

    handler, model = Handler(decide=decide), Model(quorum)
    result: list[Approval | Exception] = []

    async def ask() -> None:
        with anyio.move_on_after(cancelled_at):
            try:
                approval = await request_approval(
                    "act", arguments={"n": 1}, quorum=quorum, approvers=ASKED, timeout=expires
                )
            except (ApprovalDeniedError, ApprovalExpiredError) as error:
                result.append(error)
            else:
                result.append(approval)

    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await wait_all_tasks_blocked()
        await _play(acts, handler.requests, model, expires)
        tasks.cancel_scope.deadline = anyio.current_time() + 10  # where nobody ended it, nothing else would
    _check(handler.requests, result, model, has_ended_itself=expires is not None or cancelled_at is not None)


async def _play(
    acts: Sequence[Act], requests: Sequence[ApprovalRequest], model: Model, expires: int | None
) -> None:
    now = 0
    for act in sorted(acts, key=lambda act: act.moment):
        await anyio.sleep(act.moment - now)
        now = act.moment
        if not requests:
            continue
        request = requests[0]
        was_pending = request.is_pending
        is_late = expires is not None and act.moment >= expires
        counts = was_pending and not is_late and model.answer(act)
        try:
            if act.approves:
                request.approve(act.who, digest=request.digest if act.saw_it else "other")
            else:
                request.deny(act.who)
        except RequestClosedError:
            assert not request.is_pending
        except AnswerRefusedError:
            assert not counts
        else:
            assert counts
            assert request.status == model.status


def _check(
    requests: Sequence[ApprovalRequest],
    result: Sequence[Approval | Exception],
    model: Model,
    *,
    has_ended_itself: bool,
) -> None:
    assert not any(request.is_pending for request in requests)
    if not result:
        assert has_ended_itself or model.status == "pending"
        return
    (ended,) = result
    if isinstance(ended, Approval):
        assert set(ended.approvers) == model.for_it
        assert len(set(ended.approvers)) == len(ended.approvers) == model.quorum
        assert set(ended.approvers) <= set(ASKED)
    elif isinstance(ended, ApprovalDeniedError):
        assert model.status == "denied"
