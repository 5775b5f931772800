"""`PolicyContract`: what a policy of a program's own promises, as tests."""

from abc import abstractmethod
from difflib import get_close_matches
from inspect import isawaitable, isfunction
from typing import Any, ClassVar

import anyio

from ...errors import ExecutionError, StepRejectedError
from ...executors.choice import ExecutorChoice
from ...kernel.commit import CommitProceed, StepCommit
from ...kernel.conclude import StepResult
from ...kernel.policy import Policy
from ...runs import run
from ...scopes import scope
from ..executors import CallbackExecutor, StepCall, StepResponse, pass_response
from .promises import Cancellation, Contract, broken, check, in_time, moments, without_leftovers
from .steps import AddingModel, add_up, add_up_through

_DOCUMENTED = (
    *("around_function", "around_step", "around_request", "around_tool_call", "around_commit"),
    *("prepare", "scope", "on_event"),
    *("before_request", "after_request", "before_tool_call", "after_tool_call", "before_commit"),
    "before_compaction",
)
"""The methods of a program's own policies, and their short forms."""

_PREFIXES = ("around_", "before_", "after_", "on_")


class PolicyContract(Contract):
    """The promises of a `Policy` of a program's own. Derive from it, and say how to make the policy.

        class TestMyPolicy(PolicyContract):
            def make_policy(self) -> nh.Policy:
                return MyPolicy()

    The steps that it is around add numbers up: they ask a model twice, call the tools `nh_eval` and
    `nh_assign`, and commit the binding `total`. A policy that would refuse such a step, or that waits for
    more, overrides `make_executor` and `add_up`.

    Attributes:
        answers_failures: Whether the policy itself answers steps that fail, as a fallback does.
        cancellations: The greatest number of steps that a test cancels.
    """

    answers_failures: ClassVar[bool] = False
    cancellations: ClassVar[int] = 24

    @abstractmethod
    def make_policy(self) -> Policy:
        """Return the policy. Each test calls it once, some before any event loop runs."""
        raise NotImplementedError

    def make_executor(self) -> ExecutorChoice:
        """Return what runs the steps: an executor, or a model."""
        return AddingModel()

    async def add_up(self, numbers: list[int]) -> int:
        """Call a natural function of one block that the policy lets pass; it gives the sum of the numbers."""
        return await add_up(numbers)

    def test_it_overrides_documented_methods_only(self) -> None:
        """A policy overrides documented methods, or their short forms, and no others."""
        kind: type[Any] = type(self.make_policy())
        check(issubclass(kind, Policy), f"{kind.__qualname__} is not derived from nighthawk_async.Policy")
        for each in (each for each in kind.__mro__ if each not in Policy.__mro__):
            for name, value in vars(each).items():
                is_hook = name.startswith(_PREFIXES) or hasattr(Policy, name)
                if name.startswith("_") or not isfunction(value) or not is_hook or name in _DOCUMENTED:
                    continue
                close = get_close_matches(name, _DOCUMENTED, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                broken(f"{each.__qualname__} defines {name}, which no program's policy has{hint}")

    async def test_a_step_has_its_answer(self) -> None:
        """A step that the policy lets pass has the answer of its executor, in a run and in a scope."""
        policy = self.make_policy()
        await self._add_up(policy, [19, 23])
        async with run(self.make_executor()), scope(policies=policy):
            found = await self.add_up([19, 23])
        check(found == 42, f"in a scope, the sum of 19 and 23 was {found!r}")

    async def test_responses_are_left(self) -> None:
        """Each response that the policy lets pass is left when the step has ended."""
        policy, model = self.make_policy(), AddingModel()
        async with run(model, policies=policy):
            await self.add_up([19, 23])
            check(model.open_streams == 0, f"{model.open_streams} responses are still open")

    async def test_steps_at_once_do_not_share_state(self) -> None:
        """Steps that run at the same time, in one run or in several, have nothing of each other."""
        policy = self.make_policy()
        found: dict[int, int] = {}

        async def add(number: int) -> None:
            found[number] = await self.add_up([number, 100])

        async def add_in_run(numbers: range) -> None:
            async with run(self.make_executor(), policies=policy), anyio.create_task_group() as inner_group:
                for number in numbers:
                    inner_group.start_soon(add, number)

        ended = in_time(self.patience_seconds, "the steps had not ended")
        async with ended, anyio.create_task_group() as group:
            group.start_soon(add_in_run, range(6))
            group.start_soon(add_in_run, range(6, 12))
        expected = {number: number + 100 for number in range(12)}
        check(found == expected, f"numbers and their sums with 100 were {found!r}")

    async def test_a_step_within_a_step_ends(self) -> None:
        """A step may wait for a step that it causes, which the policy is around, too."""
        found: list[int] = []
        ended = in_time(self.patience_seconds, "a step within a step had not ended")
        async with ended, run(AddingModel(), policies=self.make_policy()):
            found.append(await add_up_through([19, 23], self.add_up))
        check(found == [42], f"the sum of 19 and 23 was {found!r}")

    async def test_an_error_of_a_step_stays(self) -> None:
        """An error of the step inside leaves the policy as it is, unless the policy answers the step."""
        raised = ExecutionError("the executor has failed")

        def fail(call: StepCall) -> StepResponse:
            raise raised

        caught: Exception | None = None
        try:
            async with run(CallbackExecutor(fail), policies=self.make_policy()):
                await self.add_up([19, 23])
        except Exception as error:
            caught = error
        if not (caught is None and self.answers_failures):
            check(caught is raised, f"{raised!r} became {caught!r}")

    async def test_a_refused_commit_stays_refused(self) -> None:
        """Nothing is committed that a policy inside refuses."""
        executor = CallbackExecutor(_adding)
        caught: Exception | None = None
        try:
            async with run(executor, policies=[self.make_policy(), _Refusing()]):
                found = await self.add_up([19, 23])
        except Exception as error:
            caught = error
        else:
            if not self.answers_failures:
                broken(f"the commit was refused, and the step gave {found!r}")
        if caught is not None:
            check(isinstance(caught, StepRejectedError), f"the StepRejectedError became {caught!r}")

    async def test_failed_steps_leave_nothing_held(self) -> None:
        """However many steps have failed, the next one is run."""
        policy = self.make_policy()

        def fail(call: StepCall) -> StepResponse:
            raise ExecutionError("the executor has failed")

        async with in_time(self.patience_seconds, "after some failed steps, a step had not ended"):
            for _ in range(12):
                async with run(CallbackExecutor(fail), policies=policy):
                    try:
                        await self.add_up([19, 23])
                    except Exception:
                        continue
        await self._add_up(policy, [19, 23])

    async def test_a_cancellation_at_any_time_ends_a_step(self) -> None:
        """A step that is cancelled at any time ends so, leaves nothing behind, and harms no later one."""
        policy = self.make_policy()

        async def step(cancellation: Cancellation) -> None:
            model = AddingModel()
            try:
                async with run(model, policies=policy):
                    await cancellation.watch(self.add_up([19, 23]), "the step")
                    await cancellation.deliver()
            finally:
                check(model.open_streams == 0, f"{model.open_streams} responses are still open")

        async with without_leftovers(self.patience_seconds):
            for ticks in moments(self.cancellations):
                when = f"after {ticks} turns of the event loop"
                async with in_time(self.patience_seconds, f"cancelled {when}, it had not ended"):
                    if not await Cancellation(when).run(step, ticks=ticks):
                        break
        await self._add_up(policy, [19, 23])

    async def test_an_unknown_event_is_ignored(self) -> None:
        """`on_event` ignores an event that it does not know: it returns None, or something to await."""
        answer: object = self.make_policy().on_event(object())
        if isawaitable(answer):
            answer = await answer
        check(answer is None, f"on_event returned {answer!r}")

    def test_it_works_on_both_event_loops(self) -> None:
        """One policy works on asyncio and on Trio, one after the other."""
        policy = self.make_policy()
        for backend in ("asyncio", "trio", "asyncio"):
            try:
                anyio.run(self._add_up, policy, [19, 23], backend=backend)
            except Exception as error:
                broken(f"on {backend}, it raised {error!r}")

    async def _add_up(self, policy: Policy, numbers: list[int]) -> None:
        __tracebackhide__ = True
        found: list[int] = []
        ended = in_time(self.patience_seconds, "a step had not ended")
        async with ended, run(self.make_executor(), policies=policy):
            found.append(await self.add_up(numbers))
        check(found == [sum(numbers)], f"the sum of {numbers} was {found[0]!r}")


class _Refusing(Policy):
    async def around_commit(self, commit: StepCommit, proceed: CommitProceed) -> StepResult:
        raise StepRejectedError("refused by the contract")


def _adding(call: StepCall) -> StepResponse:
    numbers: Any = call.step_locals["numbers"]
    return pass_response(total=sum(numbers))
