"""What a cassette records, what it replays, and when it refuses."""

from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.recording.file import dump_exchanges
from nighthawk_async.recording.requests import digest_of
from nighthawk_async.testing import (
    CassetteError,
    CassetteMissError,
    CassetteMode,
    ModelResponse,
    RecordedExchange,
    ScriptedModel,
    cassette,
    model_response,
    tool_call,
)
from nighthawk_async.types.model import ModelRequest

from .cassette_support import (
    ask,
    best,
    collect,
    content_of,
    count_stars,
    counting_model,
    echo_model,
    executor_of,
    is_there,
    no_model,
    request_of,
    stars,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.yaml"


async def record(path: Path, *questions: ModelRequest | str, mode: CassetteMode = "once") -> None:
    model = echo_model()
    with cassette(path, mode=mode):
        for question in questions:
            await ask(model, question)


class TestModes:
    async def test_once_records_when_there_is_no_file_and_replays_afterwards(self, path: Path) -> None:
        model = echo_model()
        async with cassette(path) as tape:
            first = await collect(model, "Hello")
            assert not is_there(path)
        assert (tape.recorded, tape.replayed) == (1, 0)
        async with cassette(path) as tape:
            assert await collect(no_model(), "Hello") == first
        assert (tape.recorded, tape.replayed, tape.unused) == (0, 1, ())
        assert len(model.requests) == 1

    async def test_once_records_nothing_into_a_file_that_is_there(self, path: Path) -> None:
        await record(path, "Hello")
        before = content_of(path)
        model = echo_model()
        with pytest.raises(CassetteMissError), cassette(path):
            await ask(model, "Bye")
        assert model.requests == []
        assert content_of(path) == before

    async def test_none_never_asks_a_model_even_without_a_file(self, path: Path) -> None:
        model = echo_model()
        with pytest.raises(CassetteMissError, match=r"no such file") as caught, cassette(path, mode="none"):
            await ask(model, "Hello")
        assert "--record=new" in str(caught.value)
        assert model.requests == []
        assert not is_there(path)

    async def test_new_adds_what_is_missing_and_keeps_the_rest(self, path: Path) -> None:
        await record(path, "One", "Two")
        before = content_of(path)
        model = echo_model()
        with cassette(path, mode="new") as tape:
            assert [await ask(model, text) for text in ("Two", "Three")] == ["2: Two", "1: Three"]
            assert [each.request["messages"] for each in tape.unused] == [[{"user": "One"}]]
        assert content_of(path).startswith(before)
        with cassette(path, mode="none") as tape:
            texts = [await ask(no_model(), text) for text in ("Three", "One", "Two")]
        assert texts == ["1: Three", "1: One", "2: Two"]

    async def test_all_records_anew_and_replaces_the_file(self, path: Path) -> None:
        await record(path, "One", "Two")
        await record(path, "Three", mode="all")
        with cassette(path) as tape:
            assert await ask(no_model(), "Three") == "1: Three"
            assert tape.unused == ()

    async def test_all_replaces_even_what_is_no_cassette_any_more(self, path: Path) -> None:
        write(path, "version: 0\n")
        await record(path, "One", mode="all")
        await record(path, mode="all")
        assert "exchanges: []" in content_of(path)

    async def test_a_cassette_that_nobody_asked_leaves_no_file(self, path: Path) -> None:
        for mode in ("none", "once", "new", "all"):
            with cassette(path, mode=mode):
                pass
        assert not is_there(path)

    def test_another_mode_is_refused(self, path: Path) -> None:
        with pytest.raises(CassetteError, match="mode must be one of"):
            cassette(path, mode="some")  # pyright: ignore[reportArgumentType]


class TestMatching:
    async def test_recordings_of_the_same_request_are_used_in_their_order_each_once(self, path: Path) -> None:
        await record(path, "Again", "Again", "Again")
        with cassette(path):
            texts = [await ask(no_model(), "Again") for _ in range(3)]
        assert texts == ["1: Again", "2: Again", "3: Again"]
        with cassette(path, mode="none") as tape:
            for _ in range(3):
                await ask(no_model(), "Again")
            with pytest.raises(CassetteMissError, match="3 times, and every recording is used"):
                await ask(no_model(), "Again")
            tape.discard()

    async def test_each_request_finds_its_own_in_whatever_order_they_come(self, path: Path) -> None:
        words = ["a", "b", "c", "d"]
        await record(path, *words)
        with cassette(path):
            assert [await ask(no_model(), word) for word in reversed(words)] == [
                "4: d",
                "3: c",
                "2: b",
                "1: a",
            ]

    async def test_a_recording_of_another_model_does_not_fit(self, path: Path) -> None:
        await record(path, "Hello")
        other = ScriptedModel([], name="other:model")
        with pytest.raises(CassetteMissError) as caught, cassette(path):
            await ask(other, "Hello")
        lines = str(caught.value).splitlines()
        assert {"-model: scripted:model", "+model: other:model"} < set(lines)

    async def test_a_recording_of_another_block_does_not_fit(self, path: Path) -> None:
        with cassette(path):
            async with nh.run(executor_of(counting_model())):
                assert await stars("4 stars") == 4

        @nh.natural_function
        async def also(review: str) -> int:
            count: int
            """natural
            Set <:count> to the number of stars that <review> gives.
            """
            return count

        with pytest.raises(CassetteMissError, match=r"also:1 to") as caught, cassette(path):
            async with nh.run(executor_of(no_model())):
                await also("4 stars")
        assert f"- {__name__.rpartition('.')[0]}.cassette_support:stars:1" in str(caught.value)

    async def test_parallel_steps_find_their_own(self, path: Path) -> None:
        async def read(found: dict[int, int], number: int) -> None:
            found[number] = await stars(f"{number} stars")

        for model, order in ((counting_model(), range(20)), (no_model(), reversed(range(20)))):
            found: dict[int, int] = {}
            async with cassette(path), nh.run(executor_of(model)), anyio.create_task_group() as tasks:
                for number in order:
                    tasks.start_soon(read, found, number)
            assert found == {number: number for number in range(20)}

    async def test_nested_steps_are_told_apart_by_where_they_are_called(self, path: Path) -> None:
        for model in (counting_model(), no_model()):
            with cassette(path):
                async with nh.run(executor_of(model)) as run:
                    assert await stars("3 stars") == 3
                    assert await best(["3 stars"]) == 3
            assert run.usage_meter.usage.requests == 4
        assert content_of(path).count("cassette_support:best:1\n  - ") == 1

    async def test_it_works_around_a_run_and_inside_one_and_the_inner_one_counts(self, path: Path) -> None:
        other = path.with_name("other.yaml")
        async with cassette(other) as outer, nh.run(executor_of(counting_model())):
            async with cassette(path) as inner:
                assert await stars("2 stars") == 2
            assert await stars("3 stars") == 3
        assert (inner.recorded, outer.recorded) == (1, 1)

    async def test_steps_in_threads_find_theirs(self, path: Path) -> None:
        @nh.natural_function
        def count(review: str) -> int:
            number: int
            """natural
            Set <:number> to the number of stars that <review> gives.
            """
            return number

        end = tool_call("nh_outcome", kind="pass")
        answer = model_response(tool_call("nh_assign", target_path="number", expression="5"), end)
        for model in (ScriptedModel([answer]), no_model()):
            async with cassette(path), nh.run(executor_of(model)):
                assert await anyio.to_thread.run_sync(count, "5 stars") == 5


def test_a_synchronous_program_needs_no_event_loop_of_its_own(path: Path) -> None:
    @nh.natural_function
    def count(review: str) -> int:
        number: int
        """natural
        Set <:number> to the number of stars that <review> gives.
        """
        return number

    answer = model_response(
        tool_call("nh_assign", target_path="number", expression="5"), tool_call("nh_outcome", kind="pass")
    )
    for model in (ScriptedModel([answer]), no_model()):
        with cassette(path), nh.run(executor_of(model)):
            assert count("5 stars") == 5


def test_what_one_event_loop_recorded_another_replays(path: Path) -> None:
    async def program(model: ScriptedModel) -> int:
        async with cassette(path), nh.run(executor_of(model)):
            return await best(["3 stars"])

    assert anyio.run(program, counting_model(), backend="asyncio") == 3
    assert anyio.run(program, no_model(), backend="trio") == 3


class TestMisses:
    async def test_a_miss_shows_how_the_request_differs_from_the_nearest_recording(self, path: Path) -> None:
        await record(path, "Something else\nentirely", "Dear model,\nhow are you?\nYours")
        with pytest.raises(CassetteMissError) as caught, cassette(path):
            await ask(no_model(), "Dear model,\nwho are you?\nYours")
        lines = str(caught.value).splitlines()
        assert "-    how are you?" in lines
        assert "+    who are you?" in lines
        assert not any("entirely" in line for line in lines)
        assert str(path) in lines[0]

    async def test_a_miss_of_an_unknown_step_names_some_of_the_known_ones(self, path: Path) -> None:
        request = {"messages": [{"user": "Hello"}]}
        digest = digest_of("a:model", request)
        known = [
            RecordedExchange(step=(f"m:f{number}:1",), model="a:model", digest=digest, request=request)
            for number in range(50)
        ]
        write(path, dump_exchanges(known))
        with pytest.raises(CassetteMissError, match=r"(?s)m:f0:1.*m:f19:1\n… 30 more\n"), cassette(path):
            await ask(no_model(), "Hello")

    async def test_a_miss_stays_short_whatever_differs(self, path: Path) -> None:
        await record(path, "\n".join(f"line {number} {'x' * 900}" for number in range(60)))
        with pytest.raises(CassetteMissError) as caught, cassette(path):
            await ask(no_model(), "\n".join(f"other {number} {'y' * 900}" for number in range(60)))
        assert len(str(caught.value)) < 10_000

    async def test_a_miss_leaves_natural_functions_bare_and_costs_no_correction(self, path: Path) -> None:
        write(path, "version: 1\n")
        model = counting_model()
        async with nh.run(executor_of(model)):
            with pytest.raises(CassetteMissError), cassette(path):
                await stars("3 stars")
            with pytest.raises(CassetteMissError), cassette(path):
                await best(["3 stars"])
        assert model.requests == []

    async def test_a_miss_in_a_nested_step_passes_the_model_by(self, path: Path) -> None:
        with cassette(path):
            async with nh.run(executor_of(counting_model())):
                assert await best(["3 stars"]) == 3
        text = content_of(path)
        write(path, text.replace(f"  - {stars.__module__}:stars:1", "  - gone:stars:1"))
        with pytest.raises(CassetteMissError, match=r"best:1 > .*stars:1"), cassette(path) as tape:
            async with nh.run(executor_of(no_model())):
                await best(["3 stars"])
        assert tape.replayed == 1

    async def test_a_miss_in_a_return_expression_passes_the_model_by(self, path: Path) -> None:
        @nh.natural_function
        async def chosen(reviews: list[str]) -> int:
            """natural
            Return what <stars> gives for the first of <reviews>.
            """
            raise AssertionError("the block returns")

        end = tool_call("nh_outcome", kind="return", return_expression="await stars(reviews[0])")

        def answer(request: ModelRequest) -> ModelResponse:
            if "Return what" in str(request.messages[0]):
                return model_response(end)
            return count_stars(request)

        with cassette(path):
            async with nh.run(executor_of(ScriptedModel(answer))):
                assert await chosen(["3 stars"]) == 3
        write(path, content_of(path).replace(f"  - {stars.__module__}:stars:1", "  - gone:stars:1"))
        async with nh.run(executor_of(no_model())):
            with pytest.raises(CassetteMissError, match=r"chosen:1 > .*stars:1"), cassette(path) as tape:
                await chosen(["3 stars"])
        assert tape.replayed == 1

    async def test_a_miss_that_the_program_swallowed_is_raised_at_the_end(self, path: Path) -> None:
        async def swallow() -> None:
            with suppress(nh.NighthawkError):
                await ask(no_model(), "Hello")

        with pytest.raises(CassetteMissError), cassette(path, mode="none"):
            await swallow()

    async def test_a_miss_before_another_error_is_told_with_it(self, path: Path) -> None:
        async def swallow_and_fail() -> None:
            with suppress(nh.NighthawkError):
                await ask(no_model(), "Hello")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught, cassette(path, mode="none"):
            await swallow_and_fail()
        assert "a request had no recording" in caught.value.__notes__[0]

    async def test_misses_of_parallel_steps_arrive_in_a_group(self, path: Path) -> None:
        async def program() -> None:
            async with nh.run(executor_of(no_model())), anyio.create_task_group() as tasks:
                tasks.start_soon(stars, "1 stars")
                tasks.start_soon(stars, "2 stars")

        with pytest.raises(ExceptionGroup) as caught, cassette(path, mode="none"):
            await program()
        assert caught.group_contains(CassetteMissError)
        assert not hasattr(caught.value, "__notes__")


class TestFiles:
    async def test_an_error_inside_leaves_the_file_unwritten_unless_told(self, path: Path) -> None:
        async def ask_and_fail() -> None:
            await ask(echo_model(), "Hello")
            raise ZeroDivisionError

        for keeps in (False, True):
            with pytest.raises(ZeroDivisionError), cassette(path, keep_on_error=keeps):
                await ask_and_fail()
            assert is_there(path) is keeps

    async def test_what_is_discarded_is_not_written(self, path: Path) -> None:
        with cassette(path) as tape:
            await ask(echo_model(), "Hello")
            tape.discard()
        assert not is_there(path)

    async def test_a_relative_path_means_the_folder_where_it_was_given(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(path.parent)
        with cassette(path.name):
            monkeypatch.chdir("/")
            await ask(echo_model(), "Hello")
        assert is_there(path)

    async def test_what_cannot_be_read_is_refused(self, path: Path) -> None:
        with pytest.raises(CassetteError, match="cannot be read"):
            cassette(path.parent).__enter__()

    async def test_two_cassettes_on_one_file_are_refused(self, path: Path) -> None:
        with cassette(path), pytest.raises(CassetteError, match="in use by another cassette"):
            cassette(path.parent / "x" / ".." / path.name).__enter__()
        with cassette(path):
            pass

    async def test_a_cassette_is_entered_once(self, path: Path) -> None:
        with cassette(path) as tape, pytest.raises(CassetteError, match="entered once"):
            tape.__enter__()

    @pytest.mark.parametrize("mode", ["once", "new"])
    async def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(
        self, path: Path, mode: CassetteMode
    ) -> None:
        async def ask_and_interfere() -> None:
            await ask(echo_model(), "Hello")
            write(path, "theirs")

        with pytest.raises(CassetteError, match="somebody else"), cassette(path, mode=mode):
            await ask_and_interfere()
        assert content_of(path) == "theirs"

    async def test_a_response_in_progress_is_not_written_as_if_it_were_whole(self, path: Path) -> None:
        stream = None

        async def begin() -> None:
            nonlocal stream
            stream = open_stream(echo_model(), request_of("Hello"))
            await stream.__aenter__()

        with pytest.raises(CassetteError, match="1 responses were still in progress"), cassette(path):
            await begin()
        assert stream is not None
        await stream.__aexit__(None, None, None)
        assert not is_there(path)

    async def test_a_closed_cassette_answers_nothing(self, path: Path) -> None:
        may_ask = anyio.Event()
        failures: list[Exception] = []

        async def ask_late() -> None:
            await may_ask.wait()
            try:
                await ask(echo_model(), "Hello")
            except CassetteError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            with cassette(path):
                tasks.start_soon(ask_late)
            may_ask.set()
        assert "is closed" in str(failures[0])


class TestErrors:
    async def test_an_error_is_raised_again_with_what_was_spent(self, path: Path) -> None:
        error = nh.errors.ModelStatusError("HTTP 503", status=503, is_transient=True, retry_after_seconds=2.0)
        error.retries = 2
        for model in (ScriptedModel([error]), no_model()):
            with cassette(path):
                async with nh.run(executor_of(model)) as run:
                    with pytest.raises(nh.errors.ModelStatusError, match="HTTP 503") as caught:
                        await stars("1 stars")
            assert (caught.value.status, caught.value.retry_after_seconds) == (503, 2.0)
            assert caught.value.is_transient
            usage = run.usage_meter.usage
            assert (usage.requests, usage.retries, usage.is_complete) == (1, 2, False)

    async def test_an_error_after_some_events_comes_after_them_again(self, path: Path) -> None:
        broken = model_response(text="Hel")
        broken = type(broken)(events=broken.events[:1])
        for model in (ScriptedModel([broken]), no_model()):
            with cassette(path), pytest.raises(nh.errors.ModelProtocolError):
                await collect(model, "Hello")
        assert "- text: Hel" in content_of(path)

    async def test_an_error_that_no_cassette_can_hold_is_not_recorded(self, path: Path) -> None:
        def fail(_: ModelRequest) -> nh.ModelError:
            raise ValueError("a bug in the model")

        with cassette(path) as tape:
            with pytest.raises(ValueError, match="a bug"):
                await ask(ScriptedModel(fail), "Hello")
            assert await ask(echo_model(), "Bye") == "1: Bye"
        assert tape.recorded == 1

    async def test_a_step_that_breaks_a_response_off_breaks_it_off_again(self, path: Path) -> None:
        configuration = nh.StepExecutorConfiguration(max_tool_calls=1)
        look = tool_call("nh_eval", expression="1")
        for model in (ScriptedModel([model_response(look, look, look)]), no_model()):
            executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
            with cassette(path) as tape:
                async with nh.run(executor):
                    with pytest.raises(nh.errors.StepLimitError, match="max_tool_calls"):
                        await stars("1 stars")
        assert tape.replayed == 1
        assert "left_early: true" in content_of(path)

    async def test_a_tool_that_fails_the_step_fails_it_again(self, path: Path) -> None:
        class Reviewer:
            """Answers an inspection with what is no decision, which ends the step."""

            async def inspect_tool_call(self, inspection: object) -> object:
                return "no decision"

            async def inspect_step_commit(self, commit: object) -> object:
                raise AssertionError("nothing is committed")

        look = tool_call("nh_eval", expression="1")
        for model in (ScriptedModel([model_response(look)]), no_model()):
            with cassette(path) as tape:
                async with nh.run(executor_of(model)):
                    reviewed = nh.scope(oversight=Reviewer())  # pyright: ignore[reportArgumentType]
                    with reviewed, pytest.raises(nh.NighthawkError, match="no decision"):
                        await stars("1 stars")
        assert tape.replayed == 1
