"""`StepExecutorContract`: what an executor of steps promises, as tests."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, get_args

import anyio

from ...errors import NighthawkError
from ...kernel.context import StepContext, StepExecutor, check_executor, is_async_executor
from ...runs import run
from ...types.outcomes import StepOutcome
from .promises import Cancellation, Contract, broken, check, in_time, moments, without_leftovers
from .steps import add_up, add_up_without_return


class StepExecutorContract(Contract):
    """The promises of a `StepExecutor`. Derive from it, and say how to make the executor.

        class TestMyExecutor(StepExecutorContract):
            def make_executor(self) -> nh.executors.StepExecutor:
                return MyExecutor()

    The executor is asked to "Set <:total> to the sum of <numbers>.", with a list of integers. One that runs
    other steps overrides `add_up` with a call of them.

    Attributes:
        cancellations: The greatest number of steps that a test cancels.
    """

    cancellations: ClassVar[int] = 24

    @abstractmethod
    def make_executor(self) -> StepExecutor:
        """Return the executor. Each test calls it once, some before any event loop runs."""
        raise NotImplementedError

    async def add_up(self, numbers: list[int]) -> int:
        """Call a natural function of one block, which gives the sum of the numbers."""
        return await add_up(numbers)

    async def add_up_without_return(self, numbers: list[int]) -> int:
        """Do the same with a block whose frontmatter denies the kinds `return` and `raise`."""
        return await add_up_without_return(numbers)

    def test_it_is_an_executor(self) -> None:
        """An executor has the method `run_step_async` or `run_step`, and is no class."""
        try:
            check_executor(self.make_executor())
        except NighthawkError as error:
            broken(str(error))

    async def test_a_step_has_its_answer(self) -> None:
        """A step ends with an outcome, and with the values of its write bindings."""
        await self._add_up(self.make_executor(), [19, 23])

    async def test_steps_are_run_one_after_the_other(self) -> None:
        """An executor runs any number of steps, in any number of runs; each has its own answer."""
        executor = self.make_executor()
        for number in range(3):
            await self._add_up(executor, [number, 1])

    async def test_steps_are_run_at_once(self) -> None:
        """Steps that run at the same time have nothing of each other."""
        executor = self.make_executor()
        probe = _probing(executor)
        found: dict[int, int] = {}

        async def add(number: int) -> None:
            found[number] = await self.add_up([number, 100])

        async with run(probe), anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(add, number)
        probe.check()
        expected = {number: number + 100 for number in range(8)}
        check(found == expected, f"numbers and their sums with 100 were {found!r}")

    async def test_runs_share_an_executor(self) -> None:
        """One object serves several runs at the same time."""
        executor = self.make_executor()
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(self._add_up, executor, [number, 100])

    async def test_it_ends_with_an_allowed_kind(self) -> None:
        """The outcome has one of the kinds that the block allows."""
        probe = _probing(self.make_executor())
        try:
            async with run(probe):
                await self.add_up_without_return([19, 23])
        finally:
            probe.check()

    async def test_a_cancellation_at_any_time_ends_a_step(self) -> None:
        """A step that is cancelled at any time ends so, leaves no task behind, and harms no later one."""
        executor = self.make_executor()

        async def step(cancellation: Cancellation) -> None:
            async with run(_probing(executor, cancellation)):
                await self.add_up([19, 23])
                await cancellation.deliver()

        async with without_leftovers(self.patience_seconds):
            for ticks in moments(self.cancellations):
                when = f"after {ticks} turns of the event loop"
                async with in_time(self.patience_seconds, f"cancelled {when}, it had not ended"):
                    if not await Cancellation(when).run(step, ticks=ticks):
                        break
        await self._add_up(executor, [19, 23])

    def test_it_works_on_both_event_loops(self) -> None:
        """One executor works on asyncio and on Trio, one after the other."""
        executor = self.make_executor()
        for backend in ("asyncio", "trio", "asyncio"):
            try:
                anyio.run(self._add_up, executor, [19, 23], backend=backend)
            except Exception as error:
                broken(f"on {backend}, it raised {error!r}")

    async def _add_up(self, executor: StepExecutor, numbers: list[int]) -> None:
        """Run a step, and check its answer."""
        __tracebackhide__ = True
        probe = _probing(executor)
        found: list[int] = []
        try:
            async with in_time(self.patience_seconds, "a step had not ended"), run(probe):
                found.append(await self.add_up(list(numbers)))
        finally:
            probe.check()
        check(found == [sum(numbers)], f"the sum of {numbers} was {found[0]!r}")


class _Probe:
    """Notes what is wrong with the answers of an executor."""

    def __init__(self, executor: Any, cancellation: Cancellation | None) -> None:
        self._executor = executor
        self._cancellation = cancellation
        self._faults: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("run_step"):
            raise AttributeError(name)
        return getattr(self._executor, name)

    def check(self) -> None:
        """Report the first fault."""
        __tracebackhide__ = True
        if self._faults:
            broken(self._faults[0])

    def _note(self, answer: tuple[Any, ...], names: Sequence[str], kinds: Sequence[str]) -> None:
        if not _is_tuple(answer) or len(answer) != 2:
            self._faults.append(f"it returned {answer!r}, not an outcome and bindings")
            return
        outcome, bindings = answer
        if not isinstance(outcome, get_args(StepOutcome)):
            self._faults.append(f"the outcome is {outcome!r}")
        elif outcome.kind not in kinds:
            self._faults.append(f"the outcome is {outcome!r}, and the block allows {', '.join(kinds)}")
        if not isinstance(bindings, dict) or not bindings.keys() <= set(names):
            self._faults.append(f"the bindings are {bindings!r}, and the write bindings {', '.join(names)}")


def _is_tuple(answer: object) -> bool:
    return isinstance(answer, tuple)


class _AsyncProbe(_Probe):
    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        names = tuple(binding_names)
        answering = self._executor.run_step_async(
            processed_natural_program=processed_natural_program,
            step_context=step_context,
            binding_names=binding_names,
            allowed_step_kinds=allowed_step_kinds,
        )
        if self._cancellation is None:
            answer = await answering
        else:
            answer = await self._cancellation.watch(answering, "its step")
        self._note(answer, names, allowed_step_kinds)
        return answer


class _SyncProbe(_Probe):
    def run_step(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        names = tuple(binding_names)
        answer = self._executor.run_step(
            processed_natural_program=processed_natural_program,
            step_context=step_context,
            binding_names=binding_names,
            allowed_step_kinds=allowed_step_kinds,
        )
        self._note(answer, names, allowed_step_kinds)
        return answer


def _probing(executor: StepExecutor, cancellation: Cancellation | None = None) -> Any:
    """An executor whose answers are looked at; see `_Probe`."""
    kind: Callable[[Any, Cancellation | None], _Probe]
    kind = _AsyncProbe if is_async_executor(executor) else _SyncProbe
    return kind(executor, cancellation)
