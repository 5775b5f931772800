"""`nh.step` and `nh.step_sync`: natural blocks that are chosen at run time."""

import code
import copy
import pickle
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.hooks import StepFinished
from nighthawk_async.steps import StepOutputs
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    raise_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio


async def test_outputs_by_name_and_as_attributes() -> None:
    seen: list[StepCall] = []

    def answer(call: StepCall) -> StepResponse:
        seen.append(call)
        return pass_response(summary="short")

    async with nh.run(CallbackExecutor(answer)):
        result = await nh.step(
            """
            Summarize <text> in one sentence:
              <:summary>
            """,
            text="long",
            outputs={"summary": str},
        )
    assert result["summary"] == result.summary == "short"
    assert dict(result) == {"summary": "short"}
    assert repr(result) == "StepOutputs({'summary': 'short'})"
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    with pytest.raises(AttributeError, match="no attribute '_values'"):
        getattr(StepOutputs.__new__(StepOutputs), "_values")  # noqa: B009
    (call,) = seen
    assert call.natural_program.rstrip() == "Summarize <text> in one sentence:\n  <:summary>"
    assert call.step_locals["text"] == "long"
    assert call.binding_types == {"summary": str}
    with pytest.raises(AttributeError, match="has not written 'sumary'; it has written: summary"):
        _ = result.sumary


async def test_return_values() -> None:
    responses = [
        return_response("mail == 'help'"),
        return_response("'x'"),
        return_response("len(mail) or None"),
    ]
    async with nh.run(ScriptedExecutor(responses=responses)):
        assert await nh.step("Is <mail> urgent?", mail="help", returns=bool) is True
        with pytest.raises(nh.ExecutionError, match="int"):
            await nh.step("Count <mail>.", mail="help", returns=int)
        assert await nh.step("Count <mail>.", mail="", returns=int | None) is None


async def test_outputs_are_validated() -> None:
    async with nh.run(ScriptedExecutor(responses=[pass_response(n="many")])):
        with pytest.raises(nh.ExecutionError, match="'n' must be int"):
            await nh.step("Count: <:n>", outputs={"n": int})


async def test_initial_values() -> None:
    async with nh.run(ScriptedExecutor(responses=[pass_response(), pass_response(total="x")])):
        kept = await nh.step("Change <:total> if needed.", total=1)
        assert kept.total == 1
        with pytest.raises(nh.ExecutionError, match="'total' must be int"):
            await nh.step("Change <:total>.", total=1)


async def test_values_whose_names_are_those_of_arguments() -> None:
    async with nh.run(ScriptedExecutor(responses=[pass_response(items=["a"])])):
        result = await nh.step("Put <model> into <:items>.", {"model": "a"}, outputs={"items": list[str]})
    assert result["items"] == ["a"]


async def test_only_given_values_are_seen() -> None:
    hidden = 1
    async with nh.run(ScriptedExecutor(default_response=pass_response())):
        with pytest.raises(NameError, match="'hidden' is not defined") as caught:
            await nh.step("Use <hidden>.")
        with pytest.raises(NameError, match="'pytest' is not defined"):
            await nh.step("Use <pytest>.")
    assert any(__file__ in note for note in caught.value.__notes__)
    assert hidden


async def test_raising() -> None:
    class StockError(Exception):
        pass

    responses = [
        raise_response("empty", raise_error_type="StockError"),
        raise_response("bad", raise_error_type="ValueError"),
    ]
    async with nh.run(ScriptedExecutor(responses=responses)):
        with pytest.raises(StockError, match="empty"):
            await nh.step("Raise a StockError.", StockError=StockError)
        with pytest.raises(ValueError, match="bad"):
            await nh.step("Raise ValueError.")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: nh.step("Write <:a>.", outputs={"b": int}), r"names 'b', but the program writes <:a>"),
        (lambda: nh.step("Write.", outputs={"b": int}), r"writes nothing; mention it as <:b>"),
        (lambda: nh.step("Write <:a>.", returns=int), r"no write bindings, but this one has <:a>"),
        (lambda: nh.step("---\ndeny: [pass, raise]\n---\nGo."), "denies every outcome"),
        (lambda: nh.step("---\nx: 1\n---\nGo."), "unknown keys: 'x'"),
        (lambda: nh.step(b"Go."), "must be a text"),  # pyright: ignore[reportCallIssue, reportArgumentType]
        (lambda: nh.step("Go.", {"not a name": 1}), "'not a name' has a name that no block can use"),
        (lambda: nh.step("Go.", {"class": 1}), "'class' has a name that no block can use"),
    ],
)
async def test_bad_arguments(run: Callable[[], object], message: str) -> None:
    async with nh.run(ScriptedExecutor(responses=[])):
        with pytest.raises(nh.NighthawkError, match=message):
            run()  # the mistake is found where it was made, before anything is awaited


async def test_without_a_run() -> None:
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        await nh.step("Go.")


async def test_a_step_like_a_written_one() -> None:
    finished: list[StepFinished] = []

    @nh.natural_function
    async def inner() -> None:
        """natural
        Do it.
        """

    model = ScriptedModel(
        [
            model_response(tool_call("nh_eval", expression="await inner()")),
            model_response(tool_call("nh_outcome", kind="pass")),
            model_response(tool_call("nh_assign", target_path="x", expression="double(2)")),
            model_response(tool_call("nh_outcome", kind="pass")),
        ]
    )

    def double(number: int) -> int:
        return 2 * number

    total = nh.budget(turns=4)
    hooks = nh.Hooks()
    hooks.on(StepFinished)(finished.append)
    with observe.recording() as tree:
        async with nh.run(model, budget=total, hooks=hooks):
            result = await nh.step(
                "Call <inner>, set <:x> to <double>(2).", outputs={"x": int}, inner=inner, double=double
            )
    assert result.x == 4
    assert total.spent.turns == 4
    assert total.spent.steps == 2
    assert [str(each.execution_ref.step_id).partition(":")[0] for each in finished] == [__name__, __name__]
    (of_run,) = tree.snapshot().children
    (outer,) = of_run.children
    assert (outer.kind, outer.outputs) == ("step", {"x": "4"})
    assert outer.source is not None
    assert outer.source.startswith(f"{__name__}:")


async def test_model_and_limits_of_one_step() -> None:
    other = ScriptedModel([model_response(tool_call("nh_outcome", kind="pass"))])
    async with nh.run(ScriptedModel([])):
        assert await nh.step("Go.", model=other) == {}
        with pytest.raises(nh.BudgetExceededError, match="turns"):
            await nh.step(
                "Go.", model=ScriptedModel([model_response(text="Well")]), budget=nh.BudgetLimits(turns=1)
            )


async def test_many_at_once() -> None:
    def answer(call: StepCall) -> StepResponse:
        return return_response("number * number")

    async with nh.run(CallbackExecutor(answer)):
        squares = await nh.parallel.map(
            lambda number: nh.step("Square <number>.", number=number, returns=int), range(20)
        )
    assert squares == [number * number for number in range(20)]


async def test_in_a_worker_thread() -> None:
    async with nh.run(ScriptedExecutor(responses=[pass_response(y=1), return_response("2")])):
        result = await anyio.to_thread.run_sync(lambda: nh.step_sync("Write <:y>.", outputs={"y": int}))
        assert result.y == 1
        assert await anyio.to_thread.run_sync(lambda: nh.step_sync("Return 2.", returns=int)) == 2


def test_in_an_interactive_interpreter(capsys: pytest.CaptureFixture[str]) -> None:
    console = code.InteractiveConsole(
        {"nh": nh, "executor": ScriptedExecutor(responses=[pass_response(y=7)])}
    )
    for line in ("with nh.run(executor):", "    print(nh.step_sync('Write <:y>.', x=1).y)", ""):
        console.push(line)
    captured = capsys.readouterr()
    assert captured.out.endswith("7\n"), captured.err
