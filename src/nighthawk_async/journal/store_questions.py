"""The questions of the runs of a store, as programs answer them."""

from ..policies.people.ballot import Remember
from ..policies.people.errors import UnknownRoleError
from ..policies.people.remembered import RememberedApproval, shown_of_store
from ..policies.people.request import HumanHandler, checked_remember
from .names import check_id
from .people import Questions, StorePeople
from .question_table import QuestionRow
from .run_writes import written_by_programs


class StoreQuestions:
    """The part of a store that has questions to people; see `JournalStore`.

    Args:
        questions: The questions.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def questions(self, run_id: str | None = None) -> list[QuestionRow]:
        """Return the questions and requests for approval that wait for people. Blocks while it reads.

        Args:
            run_id: The run; None for all runs of the store.

        Raises:
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be read.
        """
        if run_id is not None:
            check_id(run_id)
        return self._questions.read(run_id).wait_in_thread()

    @written_by_programs
    async def answer(self, question_id: str, value: object) -> None:
        """Answer a question of a run, which may be in progress in any process, or parked: then it is due.

        The first answer counts. The run validates it by the type of the question; if it does not fit, the
        question stays open.

        Args:
            question_id: The `id` of the question.
            value: The answer, as plain data.

        Raises:
            RequestClosedError: The question was answered, its time is over, or its run does not wait for it.
            AnswerRefusedError: The value does not match the schema of the question, or it is a request for
                approval.
            JournalValueError: The value is no plain data, or too large.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be written.
            NighthawkError: There is no such question.
        """
        await self._questions.answer(question_id, value)

    @written_by_programs
    async def vote(
        self,
        question_id: str,
        *,
        approve: bool,
        voter: str,
        digest: str | None = None,
        reason: str = "",
        remember: Remember | None = None,
    ) -> None:
        """Vote on a request for approval of a run, which may be in progress in any process, or parked.

        Args:
            question_id: The `id` of the request.
            approve: Whether the person approves. Denying withdraws the approval of the same person, or else
                denies the request.
            voter: The person. The host must authenticate them.
            digest: The digest of what that person saw; needed to approve.
            reason: The reason of a denial.
            remember: `run` to approve equal calls of the run as well; see `ApprovalRequest.approve`.

        Raises:
            RequestClosedError: The votes have decided, the time is over, or the run does not wait for it.
            WrongDigestError: The person saw another action or other arguments.
            UnknownApproverError: That person is not an approver.
            AnswerRefusedError: That person has approved already, or it is a question.
            JournalValueError: The name of the person or the reason cannot be stored.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be written.
            NighthawkError: There is no such request, or `remember` is something else.
        """
        await self._questions.vote(
            question_id,
            approve=approve,
            voter=voter,
            digest=digest,
            reason=reason,
            is_remembered=checked_remember(remember) is not None,
        )

    @written_by_programs
    async def escalate(self, question_id: str, role: str, *, voter: str, reason: str = "") -> None:
        """Hand a request for approval on to a role; see `ApprovalRequest.escalate_to`.

        Args:
            question_id: The `id` of the request.
            role: The role, one of those that the handler of the run has.
            voter: The person who hands it on. The host must authenticate them.
            reason: The reason.

        Raises:
            RequestClosedError: The votes have decided, the time is over, or the run does not wait for it.
            UnknownApproverError: That person is not an approver.
            UnknownRoleError: There is no such role.
            EscalationRefusedError: The role has it already, or too few people.
            JournalStoreError: The store cannot be written.
            NighthawkError: There is no such request.
        """
        if not role:
            raise UnknownRoleError("a request is handed on to a role, which has a name")
        await self._questions.vote(
            question_id, approve=False, voter=voter, digest=None, reason=reason, role=role
        )

    def remembered(self, run_id: str | None = None) -> list[RememberedApproval]:
        """Return the approvals that count for equal calls of their runs. Blocks while it reads.

        Args:
            run_id: The run; None for all runs of the store that have not ended.

        Raises:
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be read.
        """
        if run_id is not None:
            check_id(run_id)
        found = self._questions.read_remembered(run_id).wait_in_thread()
        return [shown_of_store(each.approval, each.run_id) for each in found]

    @written_by_programs
    async def revoke(self, approval_id: str, *, by: str, reason: str = "") -> None:
        """Take a remembered approval back: equal calls of its run are asked about again.

        Calls that have been made are not undone.

        Args:
            approval_id: The `id` of the approval.
            by: The person. The host must authenticate them.
            reason: The reason.

        Raises:
            NotRememberedError: It is not remembered, or no longer.
            JournalStoreError: The store cannot be written.
            NighthawkError: There is no such approval.
        """
        await self._questions.revoke(approval_id, voter=by, reason=reason)

    def people(self) -> HumanHandler:
        """Return a handler for runs of this store in which people answer through `answer` and `vote` alone.

            async with nh.run(executor, journal=store, run_id="order-17", human=store.people()): ...

        With another handler, answers through the store count as well: whichever comes first.
        """
        return StorePeople(self._questions)
