"""Time limits in several lives: one that expired expires again, and their time adds up."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ExecutionError
from nighthawk_async.journal import CallInDoubtError, JournalStore
from nighthawk_async.resilience import Baseline, retrying, timeout
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .durable_runs import assigning, change_tables, live, opened, places, shout
from .jumping_time import BACKENDS, SlowModel, jump, passing_time

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

HOUR = 3_600.0


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend, with a clock that stands still until a test lets it jump."""
    return request.param


class CrashError(Exception):
    """The end of a life."""


async def two_lives(
    store: JournalStore, model: SlowModel, program: Callable[[], Awaitable[Any]], *, run_id: str = "run-1"
) -> tuple[Any, Any]:
    """The results of two lives, in the second of which nothing takes long and no model is asked."""
    first = await live(store, model, program, run_id)
    model.slow.clear()
    asked = len(model.prompts)
    second = await live(store, model, program, run_id)
    assert len(model.prompts) == asked
    return first, second


async def test_a_deadline_that_expired_expires_in_the_next_life(tmp_path: Path) -> None:
    words: list[str] = []

    async def program() -> str:
        try:
            async with nh.deadline(HOUR):
                words.append(await shout("lamp"))
                words.append(await shout("cup"))
        except TimeoutError:
            return await shout("end")
        return "in time"

    with opened(tmp_path) as store:
        assert await two_lives(store, SlowModel("cup"), program) == ("END", "END")
    assert words == ["LAMP", "LAMP"]


async def test_a_decorated_function_expires_again(tmp_path: Path) -> None:
    quick = timeout(shout, HOUR)

    async def program() -> list[str]:
        results: list[str] = []
        for word in ("lamp", "cup", "vase"):
            try:
                results.append(await quick(word))
            except TimeoutError:
                results.append("late")
        return results

    with opened(tmp_path) as store:
        first, second = await two_lives(store, SlowModel("cup"), program)
    assert first == second == ["LAMP", "late", "VASE"]


async def test_a_block_that_waited_for_something_else_is_late_again(tmp_path: Path) -> None:
    waits = [True]

    async def program() -> str:
        try:
            async with nh.deadline(HOUR):
                word = await shout("lamp")
                if waits:
                    jump(2 * HOUR)
                    await anyio.sleep_forever()
                return word
        except TimeoutError:
            return await shout("end")

    with opened(tmp_path) as store:
        model = SlowModel()
        assert await live(store, model, program) == "END"
        waits.clear()
        assert await live(store, model, program) == "END"


async def test_a_deadline_that_ended_a_life_does_not_end_the_next(tmp_path: Path) -> None:
    model = SlowModel("cup")

    async def program() -> list[str]:
        async with nh.deadline(HOUR):
            return [await shout("lamp"), await shout("cup")]

    with opened(tmp_path) as store:
        with pytest.raises(TimeoutError):
            await live(store, model, program)
        model.slow.clear()
        assert await live(store, model, program) == ["LAMP", "CUP"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_effect_that_a_deadline_cancelled_is_not_begun_again(tmp_path: Path, is_async: bool) -> None:
    begun: list[str] = []

    async def pay_soon(order: str) -> str:
        begun.append(order)
        if order == "cup":
            jump(2 * HOUR)
            await anyio.sleep_forever()
        return f"paid {order}"

    def pay_now(order: str) -> str:
        begun.append(order)
        if order == "cup":
            anyio.from_thread.run(_pass_hours)
        return f"paid {order}"

    pay = nh.once(pay_soon if is_async else pay_now)
    results: list[str] = []

    async def call(order: str) -> str:
        if is_async:
            return await pay(order)  # type: ignore[misc]
        return await anyio.to_thread.run_sync(pay, order)  # type: ignore[return-value]

    async def program() -> str:
        try:
            async with nh.deadline(HOUR):
                results.append(await call("lamp"))
                results.append(await call("cup"))
                results.append(await call("vase"))
        except TimeoutError:
            return await shout("end")
        return "in time"

    with opened(tmp_path) as store:
        assert await two_lives(store, SlowModel(), program) == ("END", "END")
    assert begun == ["lamp", "cup"]
    assert results == ["paid lamp", "paid lamp"]


async def _pass_hours() -> None:
    jump(2 * HOUR)
    await anyio.sleep_forever()


async def test_an_effect_of_a_block_whose_end_was_not_seen_stays_in_doubt(tmp_path: Path) -> None:
    @nh.once
    async def pay() -> None:
        await _pass_hours()

    async def program() -> None:
        async with nh.deadline(HOUR):
            await pay()

    with opened(tmp_path) as store:
        with pytest.raises(TimeoutError):
            await live(store, SlowModel(), program)
        with pytest.raises(CallInDoubtError):
            await live(store, SlowModel(), program)


async def test_parallel_calls_that_had_ended_end_again_before_the_deadline(tmp_path: Path) -> None:
    model = SlowModel("cup")
    results: list[dict[str, str]] = []
    delays = {"cup": 0, "lamp": 0, "vase": 0}

    async def program() -> str:
        done = {word: anyio.Event() for word in ("lamp", "vase")}
        model.first = list(done.values())
        found: dict[str, str] = {}
        results.append(found)

        async def one(word: str) -> None:
            for _ in range(delays[word]):
                await anyio.lowlevel.checkpoint()
            found[word] = await shout(word)
            done[word].set()

        try:
            await nh.parallel.map(one, ["cup", "lamp", "vase"], deadline=HOUR)
        except TimeoutError:
            return await shout("end")
        return "in time"

    with opened(tmp_path) as store:
        assert await live(store, model, program) == "END"
        model.slow.clear()
        delays.update(lamp=30, vase=60)
        asked = len(model.prompts)
        assert await live(store, model, program) == "END"
        assert len(model.prompts) == asked
    assert results == [{"lamp": "LAMP", "vase": "VASE"}] * 2


async def test_a_stream_gives_the_same_results_before_its_deadline(tmp_path: Path) -> None:
    model = SlowModel("cup")

    async def program() -> list[str]:
        taken = anyio.Event()
        model.first = [taken]
        results: list[str] = []
        try:
            async with nh.parallel.stream(shout, ["cup", "lamp"], deadline=HOUR) as stream:
                async for word in stream:
                    results.append(await shout(word))
                    taken.set()
        except TimeoutError:
            results.append(await shout("end"))
        return results

    with opened(tmp_path) as store:
        first, second = await two_lives(store, model, program)
    assert first == second == ["LAMP", "END"]


async def test_an_inner_deadline_expires_before_the_outer_one(tmp_path: Path) -> None:
    results: list[str] = []

    async def program() -> str:
        try:
            async with nh.deadline(10_000_000):
                try:
                    async with nh.deadline(HOUR):
                        results.append(await shout("cup"))
                except TimeoutError:
                    results.append(await shout("vase"))
                jump(10_000_000)
                await anyio.sleep_forever()
        except TimeoutError:
            results.append("late")
        return await shout("end")

    with opened(tmp_path) as store:
        model = SlowModel("cup")
        await live(store, model, program)
        asked = len(model.prompts)
        model.slow.clear()
        await live(store, model, program)
    assert results == ["VASE", "late"] * 2
    assert len(model.prompts) == asked


async def test_attempts_that_took_too_long_do_so_again_and_their_waits_are_skipped(tmp_path: Path) -> None:
    model = SlowModel("cup")
    notices: list[int] = []

    def notice(retry: nh.resilience.RetryScheduled) -> None:
        notices.append(retry.attempt)
        model.slow.clear()

    async def program() -> str:
        baseline = Baseline(timeout=HOUR, retries=retrying(attempts=3, wait=0, on_retry=notice))
        with nh.scope(resilience=baseline):
            return await shout("cup")

    with opened(tmp_path) as store:
        assert await two_lives(store, model, program) == ("CUP", "CUP")
    assert notices == [1, 1]
    assert len(model.prompts) == 2


async def test_the_time_limit_of_a_step_expires_again(tmp_path: Path) -> None:
    model = SlowModel("cup")

    async def life(store: JournalStore) -> str:
        configuration = nh.StepExecutorConfiguration(step_timeout=HOUR)
        executor = nh.AgentStepExecutor.from_model(model, configuration=configuration)
        async with nh.run(executor, journal=store, run_id="run-1"):
            try:
                return await shout("cup")
            except ExecutionError:
                return await shout("end")

    with opened(tmp_path) as store:
        assert await life(store) == "END"
        model.slow.clear()
        assert await life(store) == "END"
    assert len(model.prompts) == 2


@pytest.mark.parametrize("what", ["request", "effect"])
async def test_what_the_programs_own_scope_cancelled_is_cancelled_by_it_again(
    tmp_path: Path, what: str
) -> None:
    begun: list[str] = []
    model = SlowModel("cup")

    @nh.once
    async def pay() -> None:
        begun.append("pay")
        await _pass_hours()

    async def program() -> str:
        with anyio.move_on_after(HOUR) as scope:
            await (shout("cup") if what == "request" else pay())
        assert scope.cancelled_caught
        return await shout("end")

    with opened(tmp_path) as store:
        assert await live(store, model, program) == "END"
        change_tables(tmp_path, f"UPDATE records SET at = at - {HOUR} WHERE seq = 1")
    model.slow.clear()
    asked = len(model.prompts)
    async with passing_time():
        with opened(tmp_path) as store:
            assert await live(store, model, program) == "END"
    assert len(model.prompts) == asked
    assert len(begun) <= 1


async def test_what_nothing_cancels_again_goes_on_after_its_time(tmp_path: Path) -> None:
    model = SlowModel("cup")
    limits = [HOUR, 1_000 * HOUR]

    async def program() -> str:
        word = "nothing"
        with anyio.move_on_after(limits.pop(0)):
            word = await shout("cup")
        return f"{word} {await shout('end')}"

    with opened(tmp_path, changes="insert") as store:
        assert await live(store, model, program) == "nothing END"
        model.slow.clear()
        async with passing_time():
            assert await live(store, model, program) == "CUP END"


async def test_a_function_whose_wait_was_cancelled_is_cancelled_again_although_it_could_go_on(
    tmp_path: Path,
) -> None:
    @nh.natural_function
    async def receive_and_shout() -> str:
        word = await nh.journal.receive("reply")
        assert word == "late"
        loud = ""
        """natural
        Set <:loud> to <word> in capitals.
        """
        return loud

    with opened(tmp_path) as store:

        async def jump_after_a_while() -> None:
            for _ in range(20):  # meanwhile the store does what the run waits for
                await store.send("run-1", "other", None)
            jump(2 * HOUR)

        async def program() -> str:
            text = "nothing"
            with anyio.move_on_after(HOUR):
                async with anyio.create_task_group() as group:
                    group.start_soon(jump_after_a_while)
                    text = await receive_and_shout()
                    group.cancel_scope.cancel()
            return f"{text} {await shout('end')}"

        assert await live(store, SlowModel(), program) == "nothing END"
        await store.send("run-1", "reply", "late")
        assert await live(store, SlowModel(), program) == "nothing END"


async def test_the_end_of_a_life_cancels_nothing_in_the_next(tmp_path: Path) -> None:
    model = SlowModel("cup")
    cleaned: list[str] = []

    @nh.once
    async def clean() -> None:
        cleaned.append("clean")

    async def program() -> str:
        try:
            return await shout("cup")
        finally:
            with anyio.CancelScope(shield=True):
                await clean()

    with opened(tmp_path) as store:
        with anyio.move_on_after(HOUR) as life:
            await live(store, model, program)
        assert life.cancelled_caught
        model.slow.clear()
        assert await live(store, model, program) == "CUP"
    assert cleaned == ["clean"]


async def test_the_time_of_a_deadline_adds_up_over_all_lives(tmp_path: Path) -> None:
    model = SlowModel()
    lives: list[anyio.CancelScope] = []

    async def program() -> str:
        try:
            async with nh.deadline(HOUR if len(lives) == 1 else HOUR / 2):
                await shout("lamp")
                if len(lives) == 1:
                    lives[0].cancel()
                return await shout("cup")
        except TimeoutError:
            return "late"

    with opened(tmp_path) as store:
        with anyio.CancelScope() as life:
            lives.append(life)
            await live(store, model, program)
        change_tables(tmp_path, "UPDATE records SET at = at - 3000 WHERE place LIKE '%counted[1]'")
    with opened(tmp_path) as store:
        lives.append(life)
        assert await live(store, model, program) == "late"
    assert len(model.prompts) == 1


async def crash_hours_ago(folder: Path, model: SlowModel, program: Callable[[], Awaitable[object]]) -> None:
    """Live until the crash, then make the record of the counted time 9,000 seconds older."""
    with opened(folder) as store:
        with pytest.raises(CrashError):
            await live(store, model, program)
        change_tables(folder, "UPDATE records SET at = at - 9000 WHERE place LIKE '%counted[1]'")


async def test_a_block_that_ended_in_time_is_not_late_in_a_later_life(tmp_path: Path) -> None:
    model = SlowModel()
    crashes = [True]

    async def program() -> str:
        async with nh.deadline(HOUR):
            await shout("lamp")
        await shout("cup")
        if crashes:
            raise CrashError
        return await shout("end")

    await crash_hours_ago(tmp_path, model, program)
    crashes.clear()
    with opened(tmp_path) as store:
        assert await live(store, model, program) == "END"


async def test_a_block_that_failed_has_its_whole_time_again(tmp_path: Path) -> None:
    model = SlowModel()
    crashes = [True]

    async def fail_once(word: str) -> str:
        result = await shout(word)
        if crashes:
            raise CrashError
        return result + await shout("end")

    async def program() -> str:
        return await nh.deadline(HOUR)(fail_once)("lamp")

    await crash_hours_ago(tmp_path, model, program)
    crashes.clear()
    with opened(tmp_path) as store:
        assert await live(store, model, program) == "LAMPEND"


async def test_a_deadline_shifts_no_place(tmp_path: Path) -> None:
    model = SlowModel()

    async def program() -> str:
        return await shout("lamp")

    async def limited() -> str:
        async with nh.deadline(HOUR):
            return await shout("lamp")

    with opened(tmp_path) as store:
        await live(store, model, program)
        assert await live(store, model, limited) == "LAMP"
        assert await live(store, model, program) == "LAMP"
        assert places(store, "response") == ["run/shout()[0]/shout#1[0]/turn[0]"]
    assert len(model.prompts) == 1


async def test_tasks_that_were_started_by_hand_are_told_apart_under_deadlines(tmp_path: Path) -> None:
    model = SlowModel()

    async def program(words: str) -> dict[str, str]:
        results: dict[str, str] = {}

        async def one(word: str) -> None:
            async with nh.deadline(HOUR):
                results[word] = await shout(word)

        async with anyio.create_task_group() as group:
            for word in words:
                group.start_soon(one, word)
        return results

    with opened(tmp_path) as store:
        expected = {"a": "A", "b": "B", "c": "C"}
        assert await live(store, model, lambda: program("abc")) == expected
        assert await live(store, model, lambda: program("cba")) == expected
    assert len(model.prompts) == 3


@nh.natural_function
def shout_in_thread(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud


def test_a_deadline_of_a_synchronous_program_expires_in_the_next_life(tmp_path: Path) -> None:
    model = SlowModel("cup")
    words: list[str] = []

    def life(store: JournalStore) -> str:
        executor = nh.AgentStepExecutor.from_model(model)
        with nh.run(executor, journal=store, run_id="run-1", sync_backend="asyncio"):
            try:
                with nh.deadline(HOUR):
                    words.append(shout_in_thread("lamp"))
                    words.append(shout_in_thread("cup"))
            except TimeoutError:
                return shout_in_thread("end")
            return "in time"

    with opened(tmp_path) as store:
        assert life(store) == "END"
        model.slow.clear()
        assert life(store) == "END"
    assert words == ["LAMP", "LAMP"]
    assert len(model.prompts) == 3


async def test_a_wait_of_the_journal_is_cut_short_again(tmp_path: Path) -> None:
    async def program() -> str:
        try:
            async with nh.deadline(HOUR), anyio.create_task_group() as group:
                group.start_soon(_jump_when_blocked)
                await nh.journal.receive("reply")
        except TimeoutError:
            return await shout("end")
        return "in time"

    with opened(tmp_path) as store:
        assert await two_lives(store, SlowModel(), program) == ("END", "END")
        await store.send("run-1", "reply", "late")
        assert await live(store, SlowModel(), program) == "END"


async def _jump_when_blocked() -> None:
    await anyio.wait_all_tasks_blocked()
    jump(2 * HOUR)


async def test_a_deadline_in_a_tool_whose_result_the_model_has_seen_expires_again(tmp_path: Path) -> None:
    looked: list[str] = []

    async def look(word: str) -> str:
        looked.append(word)
        try:
            async with nh.deadline(HOUR):
                return await shout("cup")
        except TimeoutError:
            return "nothing"

    @nh.natural_function
    async def inspect(word: str) -> str:
        loud: str
        """natural
        <look> at <word>, and set <:loud>.
        """
        return loud

    crashes = [True]

    def answer(prompt: str, turn: int) -> ModelResponse:
        if "look" not in prompt:
            return assigning("loud", "word.upper()")
        if turn == 0:
            return model_response(tool_call("nh_assign", target_path="loud", expression="await look(word)"))
        if turn == 1:
            return model_response(tool_call("nh_eval", expression="word"))
        if crashes:
            raise CrashError
        return model_response(tool_call("nh_outcome", kind="pass"))

    model = SlowModel("cup", answer=answer)
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: inspect("lamp"))
        crashes.clear()
        model.slow.clear()
        assert await live(store, model, lambda: inspect("lamp")) == "nothing"
    assert looked == ["lamp", "lamp"]
    assert sum('"cup"' in prompt for prompt in model.prompts) == 1


async def test_a_deadline_expires_in_the_life_after_one_that_was_interrupted(tmp_path: Path) -> None:
    model = SlowModel("cup")
    words: list[str] = []

    async def program() -> str:
        try:
            async with nh.deadline(HOUR):
                words.append(await shout("lamp"))
                words.append(await shout("cup"))
        except TimeoutError:
            await shout("vase")
        if life is not None:
            life.cancel()
        return await shout("end")

    with opened(tmp_path) as store:
        for _ in range(3):
            with anyio.CancelScope() as life:
                await live(store, model, program)
            model.slow.clear()
        life = None
        assert await live(store, model, program) == "END"
    assert words == ["LAMP"] * 4
    assert len(model.prompts) <= 3 + 4
