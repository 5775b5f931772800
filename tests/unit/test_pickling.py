"""Errors arrive whole in other processes; budgets, results and executors as their documentation says."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from types import MappingProxyType
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.actors import ForeignCancellationError, JobCancelledError, LockTimeoutError
from nighthawk_async.asgi.problems import QUEUE_FULL
from nighthawk_async.cli.demo_functions import AdvertisingError
from nighthawk_async.distributed.crossing_errors import RemoteTraceback
from nighthawk_async.distributed.frames import BrokenFrameError
from nighthawk_async.journal.activity import ParkedSignal
from nighthawk_async.kernel.conclude import StepResult
from nighthawk_async.kernel.pausing import CodeEnded
from nighthawk_async.kernel.usage_meter import UsageMeter
from nighthawk_async.observation import PreviewedError
from nighthawk_async.parallel.decided_order import EndOfRecords
from nighthawk_async.pickling import PicklableError
from nighthawk_async.resilience import EnsembleError, VoteError
from nighthawk_async.sandbox import errors as sandbox_errors
from nighthawk_async.sandbox.monty_values import Doubtful
from nighthawk_async.sandbox.process_wire import WireError
from nighthawk_async.sandbox.sessions import CodeFailure, HostError
from nighthawk_async.testing import ScriptedModel, StepResponse
from tests.cases import every

STEP = nh.ExecutionRef(run_id="run", scope_id="scope", step_id="module.function:3")
REPORT = nh.policies.MutationReport(
    step=STEP,
    binding="basket",
    path="basket.items",
    object_type="list",
    other_step=STEP,
    other_binding="basket",
    rival_step=None,
)

BY_NAME: Mapping[str, object] = {
    **dict.fromkeys(("limit", "spent", "reserved", "asked"), Decimal("0.125")),
    **dict.fromkeys(("seconds", "window_seconds", "retry_in", "retry_after_seconds"), 1.5),
    **dict.fromkeys(("line", "status", "queued", "max_restarts", "tokens", "context_window", "exit_code"), 7),
    "placements": 3,
    "lost_alone": 2,
    "arguments": {"order": "17"},
    **dict.fromkeys(("forced", "is_transient", "is_restored", "may_have_begun"), True),
    "parts": {"program": 5, "tools": 2},
    "faults": [nh.skills.SkillFault(path="SKILL.md", message="no name", line=1)],
    "kind": "transient",
    "content": ["a text", nh.BinaryContent(data=b"", media_type="image/png")],
    "seq": 7,
    "wakes_at": 1.5,
    "resource": "tokens",
    "refusal": nh.BudgetExceededError(budget="run", resource="tokens", limit=2, spent=1, reserved=0, asked=2),
    "errors": (nh.errors.ModelStatusError("busy", status=503), ValueError("no number")),
    "models": ("openai-chat:one", "openai-chat:two"),
    "problem": QUEUE_FULL,
    "headers": {"retry-after": "3"},
    "error": ValueError("no number"),
    "failure": CodeFailure(type_name="ValueError", message="no number"),
    "report": REPORT,
}
"""Arguments of errors; one whose annotation is `str` is its own name."""

COPIES: Mapping[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {protocol}": lambda value, protocol=protocol: pickle.loads(pickle.dumps(value, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


NOT_RAISED = (
    *(AdvertisingError, EndOfRecords, ParkedSignal, RemoteTraceback, BrokenFrameError, PreviewedError),
    *(CodeEnded, sandbox_errors.CrossingError, Doubtful, HostError, WireError),
)
"""Of the demonstration, signals, and what stands for errors inside the package."""


def find_error_types() -> dict[str, type[BaseException]]:
    """Every exception class that the package defines, by its path."""
    found: dict[str, type[BaseException]] = {}
    for each in pkgutil.walk_packages(nh.__path__, f"{nh.__name__}."):
        if each.name.rpartition(".")[2] == "__main__":
            continue
        module = importlib.import_module(each.name)
        for value in vars(module).values():
            is_error = inspect.isclass(value) and issubclass(value, BaseException)
            if is_error and value.__module__.partition(".")[0] == nh.__name__:
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


ERROR_TYPES = find_error_types()


def make_error(error_type: type[BaseException]) -> BaseException:
    """One with realistic arguments."""
    if not inspect.isfunction(error_type.__init__):
        return error_type("what happened")
    words: list[object] = []
    named: dict[str, object] = {}
    for each in [*inspect.signature(error_type.__init__).parameters.values()][1:]:
        if each.name not in BY_NAME:
            assert "str" in str(each.annotation), f"{error_type}: no argument {each.name!r} is in the table"
        value = BY_NAME.get(each.name, each.name)
        if each.kind is each.KEYWORD_ONLY:
            named[each.name] = value
        else:
            words.append(value)
    return error_type(*words, **named)


def test_the_errors_of_every_room_are_found() -> None:
    rooms = {name.split(".")[1] for name in ERROR_TYPES}
    assert {"errors", "actors", "parallel", "asgi", "resilience", "observe", "testing", "runtime"} <= rooms
    assert {"journal", "human"} <= rooms
    assert {nh.parallel.TaskCancelledError, ForeignCancellationError, LockTimeoutError} <= {
        *ERROR_TYPES.values()
    }


@every("copied", COPIES.values())
@every("error_type", ERROR_TYPES.values())
def test_every_error_can_be_copied_and_sent_to_another_process(
    error_type: type[BaseException], copied: Callable[[Any], Any]
) -> None:
    error = make_error(error_type)
    error.add_note("a note")
    assert str(error) != ""
    other = copied(error)
    assert type(other) is error_type
    assert (str(other), repr(other), repr(other.args)) == (str(error), repr(error), repr(error.args))
    assert other.__notes__ == ["a note"]
    assert {name: repr(value) for name, value in vars(other).items()} == {
        name: repr(value) for name, value in vars(error).items()
    }


@every("error_type", ERROR_TYPES.values())
def test_one_base_makes_every_exported_error_picklable(error_type: type[BaseException]) -> None:
    is_left_out = error_type in NOT_RAISED
    if not error_type.__name__.startswith("_") and not is_left_out:
        assert issubclass(error_type, PicklableError)
        assert "__reduce__" not in vars(error_type) or error_type is PicklableError


class DemandingError(Exception):
    """Cannot be rebuilt from its arguments, as Python does it."""

    def __init__(self, *, amount: int) -> None:
        super().__init__(f"{amount} are too many")
        self.amount = amount


class LiveError(Exception):
    """Holds something of the present process."""

    def __init__(self) -> None:
        super().__init__("still held")
        self.lock = threading.Lock()


class MuteError(Exception):
    def __init__(self, *, amount: int) -> None:
        super().__init__()

    def __str__(self) -> str:
        raise RuntimeError("says nothing")


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_what_an_error_holds_and_cannot_be_pickled_is_replaced_by_what_it_was() -> None:
    votes = VoteError("none succeeded", errors=[DemandingError(amount=3), LiveError(), ValueError("plain")])
    first, second, third = sent(votes).errors
    assert (type(first), first.text) == (nh.errors.UnpicklableError, "3 are too many")
    assert first.type_name.endswith("test_pickling.DemandingError")
    assert (type(second), second.text) == (nh.errors.UnpicklableError, "still held")
    assert (type(third), third.args) == (ValueError, ("plain",))
    assert [type(each) for each in votes.errors] == [DemandingError, LiveError, ValueError]
    assert str(sent(first)) == str(first)


def test_groups_keep_their_form_and_their_notes() -> None:
    group = ExceptionGroup("two", [DemandingError(amount=3), ExceptionGroup("one", [KeyError("k")])])
    group.add_note("a note")
    (received,) = sent(VoteError("none", errors=[group])).errors
    assert isinstance(received, ExceptionGroup)
    assert (received.message, received.__notes__) == ("two", ["a note"])
    assert type(received.exceptions[0]) is nh.errors.UnpicklableError
    assert repr(received.exceptions[1]) == repr(group.exceptions[1])


def test_objects_of_the_process_are_replaced_by_a_text_that_says_so() -> None:
    error = nh.NighthawkError("broken", threading.Lock())
    error.holder = {"locks": [threading.Lock()], "n": 1}  # type: ignore[attr-defined]
    received = sent(error)
    assert received.args[0] == "broken"
    assert "lock, which cannot be pickled: cannot pickle" in received.args[1]
    assert received.holder["n"] == 1
    assert "cannot be pickled" in received.holder["locks"][0]
    shared = copy.copy(error)
    assert shared.args == error.args
    assert copy.deepcopy(error).args == error.args


def test_errors_that_say_nothing_and_errors_within_errors_arrive() -> None:
    inner = VoteError("inner", errors=[MuteError(amount=1)])
    for _ in range(40):
        inner = VoteError("outer", errors=[inner])
    received = sent(inner)
    while received.errors and isinstance(received.errors[0], VoteError):
        received = received.errors[0]
    (mute,) = received.errors
    assert type(mute) is nh.errors.UnpicklableError
    assert mute.text == "its message cannot be shown"


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_an_error_that_holds_itself_is_copied(copied: Callable[[Any], Any]) -> None:
    error = VoteError("round", errors=[])
    error.errors = (error,)
    other = copied(error)
    assert str(other.errors[0]) == "round"


class OddTimeoutError(nh.NighthawkError, TimeoutError):
    def __init__(self, *, number: int) -> None:
        super().__init__(number, "no such thing", "a file")


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_the_errors_of_programs_that_derive_from_ours_keep_what_is_built_in(
    copied: Callable[[Any], Any],
) -> None:
    other = copied(OddTimeoutError(number=2))
    assert (other.errno, other.strerror, other.filename) == (2, "no such thing", "a file")


def raise_it(error: BaseException) -> None:
    raise error


def raise_unpicklable() -> None:
    raise EnsembleError("none", errors=[DemandingError(amount=3), LiveError()], models=["one", "two"])


def read_budget(budget: nh.policies.Budget) -> tuple[nh.policies.Budget, int | None]:
    return budget, budget.remaining.tokens


@pytest.mark.may_leave_behind("the process that multiprocessing starts to count its resources")
def test_a_process_pool_survives_every_error() -> None:
    errors = [make_error(each) for each in ERROR_TYPES.values() if issubclass(each, PicklableError)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for error in errors:
            with pytest.raises(type(error)) as raised:
                pool.submit(raise_it, error).result()
            assert str(raised.value) == str(error)
        with pytest.raises(EnsembleError, match="none") as ended:
            pool.submit(raise_unpicklable).result()
        assert [str(each).rpartition(": ")[2] for each in ended.value.errors] == [
            "3 are too many",
            "still held",
        ]
        budget, remaining = pool.submit(read_budget, nh.budget(tokens=100)).result()
        assert (budget.limits.tokens, remaining) == (100, 100)
        executor = make_executor()
        assert pool.submit(type_of_executor, executor).result() == executor.configuration


def make_executor() -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(
            model="openai-chat:any", model_settings={"base_url": "http://127.0.0.1:9", "api_key": "none"}
        )
    )


def type_of_executor(executor: nh.AgentStepExecutor) -> nh.StepExecutorConfiguration:
    return executor.configuration


@pytest.mark.parametrize("copied", [copy.deepcopy, sent])
def test_a_copied_budget_has_an_account_of_its_own_with_what_was_spent(copied: Callable[[Any], Any]) -> None:
    budget = nh.budget(tokens=100, cost=2, seconds=60, name="total")
    usage = nh.Usage(requests=1, input_tokens=30, output_tokens=10)
    budget.account.spend_locked({"tokens": 40, "cost": Decimal("0.5")})
    budget.account.reserve_locked({"tokens": 20})
    budget.account.meter.add("m", usage)
    other = copied(budget)
    assert (other.name, other.limits, repr(other)) == ("total", budget.limits, repr(budget))
    assert (other.spent.tokens, other.spent.cost, other.usage) == (40, Decimal("0.5"), usage)
    assert (other.reserved.tokens, other.remaining.tokens) == (0, 60)
    other.account.spend_locked({"tokens": 60})
    assert budget.spent.tokens == 40
    assert other.fresh().spent.tokens == 0


def price_it(model: str, usage: nh.Usage) -> Decimal | None:
    return Decimal(1)


def test_a_budget_with_prices_is_sent_with_them_or_says_what_to_send() -> None:
    budget = nh.budget(cost=2, prices=price_it)
    assert sent(budget).account.terms.prices is price_it
    with pytest.raises(
        TypeError, match=r"budget total: .*define it in a module, or give a mapping of prices"
    ):
        pickle.dumps(nh.budget(cost=2, name="total", prices=lambda model, usage: None))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, sent])
def test_a_copied_meter_is_a_snapshot(copied: Callable[[Any], Any]) -> None:
    outer = UsageMeter()
    meter = UsageMeter(outer)
    meter.add("m", nh.Usage(requests=1))
    meter.count_step()
    other = copied(meter)
    other.add("m", nh.Usage(requests=1))
    assert (other.usage.requests, other.steps) == (2, 1)
    assert (meter.usage.requests, outer.usage.requests) == (1, 1)
    assert sent(meter.usage_by_model) == {"m": nh.Usage(requests=1)}


DATA: Sequence[object] = [
    StepResult(kind="pass"),
    StepResult(kind="return", bindings={"label": "good"}, return_value=["x"]),
    StepResult(kind="pass", bindings=MappingProxyType({"label": "good"})),
    StepResponse(),
    nh.executors.ReturnStepOutcome(return_expression="1 + 1"),
    nh.Usage(requests=1, cost=Decimal("0.5")),
    nh.BudgetLimits(tokens=3),
    nh.policies.BudgetAmounts(cost=Decimal("0.5")),
    nh.models.ModelPrice(input=Decimal(1), output=Decimal(2)),
    nh.StepExecutorConfiguration(model="openai-chat:any", model_settings={"seed": 3}),
    nh.models.OpenAIResponsesSettings(),
    nh.models.ToolCall(id="1", name="nh_eval", arguments="{}"),
    STEP,
    REPORT,
]


@pytest.mark.parametrize("value", DATA, ids=lambda value: type(value).__name__)
def test_data_is_copied_and_sent_as_it_is(value: object) -> None:
    assert [copied(value) for copied in COPIES.values()] == [value] * len(COPIES)


@pytest.mark.anyio
async def test_a_snapshot_of_a_step_can_be_sent() -> None:
    from nighthawk_async.testing import CallbackExecutor, StepCall, pass_response

    snapshots: list[nh.runtime.StepSnapshot] = []

    async def answer(call: StepCall) -> StepResponse:
        snapshots.append(await nh.get_current_step_actor().snapshot())
        return pass_response(label="good")

    async with nh.run(CallbackExecutor(answer)):
        assert await label_of("nice") == "good"
    (snapshot,) = snapshots
    for copied in COPIES.values():
        other = copied(snapshot)
        assert other == snapshot
        assert other.locals["text"] == "nice"
        with pytest.raises(TypeError):
            other.locals["text"] = "changed"


@nh.natural_function
async def label_of(text: str) -> str:
    label: str
    """natural
    Set <:label> to the label of <text>.
    """
    return label


class OwnModel:
    """A model that cannot be pickled."""

    name = "own"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def stream(self, request: nh.models.ModelRequest) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_an_executor_made_from_a_configuration_is_made_again(copied: Callable[[Any], Any]) -> None:
    executor = make_executor()
    other = copied(executor)
    assert other.configuration == executor.configuration
    assert other.agent_is_managed
    assert other.model.name == executor.model.name if executor.model else False


def test_an_executor_of_an_object_is_sent_with_it_or_says_what_to_send() -> None:
    other = sent(nh.AgentStepExecutor.from_model(model=ScriptedModel([])))
    assert isinstance(other.model, ScriptedModel)
    executor = nh.AgentStepExecutor.from_model(model=OwnModel())
    assert copy.copy(executor).model is executor.model
    with pytest.raises(
        TypeError, match=r"object OwnModel cannot be pickled.*; send its configuration"
    ) as ended:
        pickle.dumps(executor)
    assert "lock" in str(ended.value)


def test_an_error_that_was_raised_in_a_worker_names_the_job() -> None:
    error = sent(JobCancelledError(job_id="j1", reason="too late"))
    assert (error.job_id, error.reason, str(error)) == ("j1", "too late", "job j1 was cancelled: too late")
