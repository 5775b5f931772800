"""Policies around whole natural functions: what they see, change and answer, for functions of all kinds."""

import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.observation import using_node_writer
from nighthawk_async.policies import FunctionCall, FunctionProceed
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    model_response,
    pass_response,
    raise_response,
    return_response,
    tool_call,
)
from tests.unit.observe.told_nodes import ToldNode

pytestmark = pytest.mark.anyio

Proceed = Callable[..., Awaitable[Any]]

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def quote(customer: str, discount: int = 0) -> int:
    price: int
    """natural
    Set <:price> for <customer>, less <discount>, or raise <ValueError>.
    """
    return price


@nh.natural_function
def quote_sync(customer: str, discount: int = 0) -> int:
    price: int
    """natural
    Set <:price> for <customer>, less <discount>, or raise <ValueError>.
    """
    return price


class Shop:
    name = "shop"

    @nh.natural_function
    async def sell(self, thing: str) -> str:
        """natural
        Sell <thing>.
        """
        return f"{self.name} sells {thing}"

    @nh.natural_function
    def sell_sync(self, thing: str) -> str:
        """natural
        Sell <thing>.
        """
        return f"{self.name} sells {thing}"

    @classmethod
    @nh.natural_function
    async def open(cls, city: str) -> str:
        """natural
        Open in <city>.
        """
        return f"{cls.__name__} in {city}"

    @nh.natural_function
    @staticmethod
    async def close(city: str) -> str:
        """natural
        Close in <city>.
        """
        return f"closed in {city}"


class Corner(Shop):
    @nh.natural_function
    async def sell(self, thing: str) -> str:
        """natural
        Look at <thing>.
        """
        return await super().sell(thing)


class Log(nh.Policy):
    """Writes down the calls and how they ended."""

    def __init__(self, name: str = "", pages: list[str] | None = None) -> None:
        self.name = name
        self.pages: list[str] = [] if pages is None else pages
        self.calls: list[FunctionCall] = []

    async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
        self.calls.append(call)
        self.pages.append(f"{self.name} into {call.name}".strip())
        try:
            value = await proceed()
        except BaseException as error:
            self.pages.append(f"{self.name} {call.name}: {type(error).__name__}".strip())
            raise
        self.pages.append(f"{self.name} {call.name}: {value!r}".strip())
        return value


class Around(nh.Policy):
    """Does what a function says."""

    def __init__(self, function: Callable[[FunctionCall, FunctionProceed], Any]) -> None:
        self.function = function

    async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
        return await self.function(call, proceed)


def passing(**bindings: Any) -> ScriptedExecutor:
    return ScriptedExecutor(default_response=pass_response(**bindings))


async def call_sync(function: Callable[..., Any], *arguments: Any) -> Any:
    return await anyio.to_thread.run_sync(function, *arguments)


async def test_a_policy_sees_the_call_and_its_value() -> None:
    log = Log()
    async with nh.run(passing(price=98), policies=log) as run:
        assert await quote("Ada") == 98
        (call,) = log.calls
        assert (call.name, call.qualified_name, call.function) == ("quote", "quote", quote)
        assert call.arguments == {"customer": "Ada", "discount": 0}
        assert (call.parent, call.is_async) == (None, True)
        assert call.execution_ref.run_id == run.execution_ref.run_id
        assert call.execution_ref.step_id is None
    assert log.pages == ["into quote", "quote: 98"]
    (committed,) = call.committed
    assert committed[0].startswith(f"{__name__}:")
    assert committed[1] == {"price": 98}
    with pytest.raises(TypeError):
        call.arguments["customer"] = "Bob"  # type: ignore[index]
    with pytest.raises(TypeError):
        committed[1]["price"] = 1  # type: ignore[index]


async def test_a_policy_is_around_synchronous_functions_too() -> None:
    log = Log()
    async with nh.run(passing(price=98), policies=log):
        assert await call_sync(quote_sync, "Ada") == 98
        with pytest.warns(RuntimeWarning, match="blocks it"):
            assert quote_sync("Bob", 3) == 98
    assert [dict(call.arguments) for call in log.calls] == [
        {"customer": "Ada", "discount": 0},
        {"customer": "Bob", "discount": 3},
    ]
    assert [call.is_async for call in log.calls] == [False, False]
    assert log.calls[0].committed[0][1] == {"price": 98}


def test_a_policy_is_around_synchronous_functions_of_a_script() -> None:
    log = Log()
    with nh.run(passing(price=98), policies=log):
        assert quote_sync("Ada") == 98
    assert log.pages == ["into quote_sync", "quote_sync: 98"]


@pytest.mark.parametrize("sync_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt(), ValueError("no")])
def test_whatever_ends_a_function_of_a_script_ends_it_alone(sync_backend: Any, ending: BaseException) -> None:
    log = Log()

    @nh.natural_function
    def end(ends: bool) -> int:
        """natural
        Look.
        """
        if ends:
            raise ending
        return 4

    with nh.run(passing(), policies=log, sync_backend=sync_backend):
        with pytest.raises(type(ending)) as raised:
            end(True)
        assert raised.value is ending
        assert end(False) == 4
    assert log.pages[1] == f"end: {type(ending).__name__}"


async def test_methods_class_methods_and_static_methods() -> None:
    log, shop = Log(), Shop()
    async with nh.run(passing(), policies=log):
        assert await shop.sell("tea") == "shop sells tea"
        assert await call_sync(shop.sell_sync, "tea") == "shop sells tea"
        assert await Corner.open("Rome") == "Corner in Rome"
        assert await Shop.close("Rome") == "closed in Rome"
        corner = Corner()
        assert await corner.sell("tea") == "shop sells tea"
    assert [(call.qualified_name, dict(call.arguments)) for call in log.calls] == [
        ("Shop.sell", {"self": shop, "thing": "tea"}),
        ("Shop.sell_sync", {"self": shop, "thing": "tea"}),
        ("Shop.open", {"cls": Corner, "city": "Rome"}),
        ("Shop.close", {"city": "Rome"}),
        ("Corner.sell", {"self": corner, "thing": "tea"}),
        ("Shop.sell", {"self": corner, "thing": "tea"}),
    ]
    assert log.calls[-1].parent is log.calls[-2]


async def test_arguments_of_all_kinds_arrive_as_they_were_given() -> None:
    seen: list[Any] = []

    @nh.natural_function
    async def many(first: int, /, second: int, *rest: int, third: int = 3, **others: int) -> tuple[Any, ...]:
        """natural
        Look.
        """
        return first, second, rest, third, others

    async def more(call: FunctionCall, proceed: FunctionProceed) -> Any:
        seen.append(dict(call.arguments))
        rest, others = call.arguments["rest"], call.arguments["others"]
        return await proceed(
            call.changed(arguments={"rest": [*rest, 9], "others": {**others, "first": 8, "fifth": 5}})
        )

    async with nh.run(passing()):
        without = await many(1, 2, 4, fourth=4)
        assert without == (1, 2, (4,), 3, {"fourth": 4})
        with nh.scope(policies=Log()):
            assert await many(1, 2, 4, fourth=4) == without
        with nh.scope(policies=Around(more)):
            assert await many(1, 2, 4, fourth=4) == (
                *(1, 2, (4, 9), 3),
                {"fourth": 4, "first": 8, "fifth": 5},
            )
    assert seen == [{"first": 1, "second": 2, "rest": (4,), "third": 3, "others": {"fourth": 4}}]


async def test_closures_see_and_change_the_variables_of_the_enclosing_function() -> None:
    count = 0
    log = Log()

    @nh.natural_function
    async def counted(depth: int) -> int:
        """natural
        Look.
        """
        nonlocal count
        count += 1
        return count if depth == 0 else await counted(depth - 1)

    async with nh.run(passing(), policies=log):
        assert await counted(2) == 3
    assert [call.arguments["depth"] for call in log.calls] == [2, 1, 0]
    assert all(call.function is counted for call in log.calls)
    assert log.calls[2].parent is log.calls[1]
    assert log.calls[1].parent is log.calls[0]


async def test_outer_policies_come_first_and_a_function_without_one_costs_nothing() -> None:
    pages: list[str] = []
    async with nh.run(passing(price=1), policies=[Log("outer", pages), Log("middle", pages)]):
        with nh.scope(policies=Log("inner", pages)):
            await quote("Ada")
        with nh.scope(policies=[], mode="replace"):
            await quote("Bob")
    assert pages == [
        *("outer into quote", "middle into quote", "inner into quote"),
        *("inner quote: 1", "middle quote: 1", "outer quote: 1"),
    ]


async def test_outside_of_runs_a_function_behaves_as_without_policies() -> None:
    with pytest.raises(nh.errors.NighthawkError, match="No run is active"):
        await quote("Ada")
    with pytest.raises(nh.errors.NighthawkError, match="No run is active"):
        quote_sync("Ada")


async def test_the_policies_of_the_moment_of_the_call_are_around_it() -> None:
    log = Log()
    async with nh.run(passing(price=1)):
        with nh.scope(policies=log):
            waiting = quote("Ada")  # begins when it is awaited
        await waiting
        assert log.pages == []
        with nh.scope(policies=log):
            await quote("Bob")
    assert log.pages == ["into quote", "quote: 1"]


async def test_an_inner_run_has_its_own_policies_and_calls() -> None:
    log = Log()
    async with nh.run(passing(price=1), policies=log), nh.run(passing(price=2)):
        await quote("Ada")
    assert log.pages == []


async def test_arguments_may_be_changed() -> None:
    log = Log()

    async def generous(call: FunctionCall, proceed: FunctionProceed) -> Any:
        changed = call.changed(arguments={"discount": 5})
        value = await proceed(changed)
        assert call.committed == changed.committed != ()
        return value

    @nh.natural_function
    async def discounted(customer: str, discount: int = 0) -> int:
        """natural
        Look.
        """
        return discount

    async with nh.run(passing(), policies=[Around(generous), log]):
        assert await discounted("Ada") == 5
    assert log.calls[0].arguments == {"customer": "Ada", "discount": 5}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda call: call.changed(arguments={"nope": 1}), "it has no argument 'nope'"),
        (lambda call: {"customer": "Bob"}, "instead of a FunctionCall"),
        (
            lambda call: FunctionCall(
                function=call.function, arguments={"customer": 1}, execution_ref=call.execution_ref
            ),
            "the argument 'discount' is missing",
        ),
        (
            lambda call: FunctionCall(
                function=Shop.sell, arguments=call.arguments, execution_ref=call.execution_ref
            ),
            "it has another function",
        ),
        (
            lambda call: FunctionCall(function=call.function, arguments=3, execution_ref=call.execution_ref),
            "gave 3 instead of a Mapping",
        ),
    ],
)
async def test_other_arguments_must_be_those_of_the_function(
    change: Callable[[FunctionCall], Any], problem: str
) -> None:
    executor = passing(price=1)

    async def changing(call: FunctionCall, proceed: FunctionProceed) -> Any:
        return await proceed(change(call))

    async with nh.run(executor, policies=Around(changing)):
        with pytest.raises(nh.errors.HookError, match=problem) as raised:
            await quote("Ada")
        assert raised.value.hook == "Around.around_function"
        with pytest.raises(nh.errors.HookError, match=problem):
            await call_sync(quote_sync, "Ada")
    assert executor.calls == []


@pytest.mark.parametrize(
    "arguments",
    [{"rest": 3}, {"rest": "abc"}, {"others": 3}, {"others": {1: 2}}, {"others": {"first": 2}}],
)
async def test_further_arguments_must_be_such(arguments: Mapping[str, Any]) -> None:
    @nh.natural_function
    async def many(first: int, *rest: int, **others: int) -> None:
        """natural
        Look.
        """

    async def changing(call: FunctionCall, proceed: FunctionProceed) -> Any:
        return await proceed(call.changed(arguments=arguments))

    async with nh.run(passing(), policies=Around(changing)):
        with pytest.raises(nh.errors.HookError, match=f"the argument '{next(iter(arguments))}' is no"):
            await many(1)


class Cache(nh.Policy):
    """A cache of functions."""

    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}

    async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
        key = call.qualified_name, *call.arguments.items()
        if key not in self.kept:
            self.kept[key] = await proceed()
        return self.kept[key]


async def test_a_policy_may_answer_without_the_function() -> None:
    executor = ScriptedExecutor([pass_response(price=1), pass_response(price=2), pass_response(price=3)])
    async with nh.run(executor, policies=Cache()):
        assert [await quote("Ada"), await quote("Bob"), await quote("Ada")] == [1, 2, 1]
        assert [await call_sync(quote_sync, "Ada"), await call_sync(quote_sync, "Ada")] == [3, 3]


async def test_an_answer_is_validated_as_a_returned_value_is() -> None:
    async def answer(call: FunctionCall, proceed: FunctionProceed) -> Any:
        return "7" if call.arguments["customer"] == "Ada" else "seven"

    async with nh.run(passing(), policies=Around(answer)):
        for call in (lambda who: quote(who), lambda who: call_sync(quote_sync, who)):
            with pytest.raises(nh.errors.HookError, match=r"around_function answered for quote.*seven"):
                await call("Bob")


async def test_a_forgotten_value_is_noticed_where_the_type_excludes_none() -> None:
    async def forgetful(call: FunctionCall, proceed: FunctionProceed) -> None:
        await proceed()

    async with nh.run(passing(price=1), policies=Around(forgetful)):
        with pytest.raises(
            nh.errors.HookError, match=r"Around\.around_function answered for quote\(\)"
        ) as error:
            await quote("Ada")
        assert isinstance(error.value.__cause__, nh.errors.ExecutionError)
        assert "1" not in str(error.value.message_without_content)


async def test_a_value_that_the_function_gave_is_not_validated_again() -> None:
    given = {"a": object()}

    @nh.natural_function
    async def odd() -> dict[str, object]:
        """natural
        Look.
        """
        return given

    async with nh.run(passing(), policies=[Log(), Log()]):
        assert await odd() is await odd()
        assert (await odd())["a"] is given["a"]


async def test_errors_pass_through_and_those_of_the_policy_reach_the_caller() -> None:
    log = Log()

    class NotTodayError(Exception):
        pass

    async def closed(call: FunctionCall, proceed: FunctionProceed) -> Any:
        raise NotTodayError

    @nh.natural_function
    async def failing() -> None:
        """natural
        Look.
        """
        raise KeyError("own")

    executor = ScriptedExecutor([raise_response("no", "ValueError"), pass_response(), pass_response()])
    async with nh.run(executor, policies=log):
        with pytest.raises(ValueError, match="no"):
            await quote("Ada")
        with pytest.raises(KeyError, match="own"):
            await failing()
        with nh.scope(policies=Around(closed)):
            with pytest.raises(NotTodayError):
                await quote("Ada")
            with pytest.raises(NotTodayError):
                await call_sync(quote_sync, "Ada")
    assert [page for page in log.pages if ":" in page] == [
        *("quote: ValueError", "failing: KeyError"),
        *("quote: NotTodayError", "quote_sync: NotTodayError"),
    ]


async def test_a_policy_may_handle_an_error_of_the_function() -> None:
    async def handle(call: FunctionCall, proceed: FunctionProceed) -> Any:
        try:
            return await proceed()
        except ValueError:
            return -1

    executor = ScriptedExecutor(default_response=raise_response("no", "ValueError"))
    async with nh.run(executor, policies=Around(handle)):
        assert await quote("Ada") == -1
        assert await call_sync(quote_sync, "Ada") == -1


async def test_commits_can_be_read_after_an_error() -> None:
    log = Log()

    @nh.natural_function
    async def two() -> int:
        first: int
        """natural
        Set <:first>.
        """
        second: int
        """natural
        Set <:second>.
        """
        for _ in range(2):
            """natural
            Set <:second>, or raise <ValueError>.
            """
        return first + second

    executor = ScriptedExecutor(
        [
            *(pass_response(first=1), pass_response(second=2), pass_response(second=3)),
            raise_response("no", "ValueError"),
        ]
    )
    async with nh.run(executor, policies=log):
        with pytest.raises(ValueError, match="no"):
            await two()
    assert [dict(values) for _, values in log.calls[0].committed] == [
        *({"first": 1}, {"second": 2}, {"second": 3}, {}),
    ]
    assert len({step_id for step_id, _ in log.calls[0].committed}) == 3


async def test_a_step_that_fails_commits_nothing() -> None:
    log = Log()
    async with nh.run(ScriptedExecutor(), policies=log):
        with pytest.raises(nh.errors.ExecutionError):
            await quote("Ada")
    assert log.calls[0].committed == ()


@pytest.mark.filterwarnings("ignore:A synchronous function")
async def test_functions_that_tools_and_tasks_call_know_their_parent() -> None:
    log = Log()

    @nh.natural_function
    async def inner(number: int) -> int:
        """natural
        Look at <number>.
        """
        return number

    @nh.natural_function
    def inner_sync(number: int) -> int:
        """natural
        Look at <number>.
        """
        return number

    @nh.natural_function
    async def outer() -> int:
        result: int
        """natural
        Set <:result> with <inner> and <inner_sync>.
        """
        await nh.parallel.map(inner, [1, 2])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inner, 3)
        return result

    def respond(request: nh.models.ModelRequest) -> Any:
        if "Look at" in str(request.messages[0]):
            return model_response(DONE)
        both = tool_call("nh_assign", target_path="result", expression="await inner(7) + inner_sync(8)")
        return model_response(both, DONE)

    async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel(respond)), policies=log):
        assert await outer() == 15
    first, *others = log.calls
    assert sorted(call.arguments["number"] for call in others) == [1, 2, 3, 7, 8]
    assert {call.parent for call in others} == {first}
    in_step = [call for call in others if call.execution_ref.step_id is not None]
    assert sorted(call.arguments["number"] for call in in_step) == [7, 8]


async def test_blocks_of_generators_are_no_commits_of_the_function_around_them() -> None:
    log = Log()

    @nh.natural_function
    async def numbers() -> AsyncGenerator[int]:
        number: int
        """natural
        Set <:number>.
        """
        yield number

    @nh.natural_function
    def numbers_sync() -> Generator[int]:
        number: int
        """natural
        Set <:number>.
        """
        yield number

    @nh.natural_function
    async def consume() -> int:
        number: int
        """natural
        Set <:number>.
        """
        return number + sum([number async for number in numbers()])

    async with nh.run(passing(number=4), policies=log):
        assert [number async for number in numbers()] == [4]
        assert await call_sync(list, numbers_sync()) == [4]
        assert log.pages == []
        assert await consume() == 8
    assert log.pages == ["into consume", "consume: 8"]
    assert [dict(values) for _, values in log.calls[0].committed] == [{"number": 4}]


async def test_a_deadline_of_a_policy_holds_for_the_function() -> None:
    async def wait(call: StepCall) -> Any:
        await anyio.sleep_forever()

    async def hurry(call: FunctionCall, proceed: FunctionProceed) -> Any:
        with anyio.fail_after(0.05):
            return await proceed()

    async with nh.run(CallbackExecutor(wait), policies=Around(hurry)):
        with pytest.raises(TimeoutError):
            await quote("Ada")
        with pytest.raises(TimeoutError):
            await call_sync(quote_sync, "Ada")


async def test_a_cancelled_call_leaves_its_policies() -> None:
    log, begun = Log(), anyio.Event()

    async def wait(call: StepCall) -> Any:
        begun.set()
        await anyio.sleep_forever()

    async with nh.run(CallbackExecutor(wait), policies=log):
        for function in (quote, lambda who: call_sync(quote_sync, who)):
            begun = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(function, "Ada")
                await begun.wait()
                tasks.cancel_scope.cancel()
    assert [page.startswith(("quote: Cancel", "quote_sync: Cancel")) for page in log.pages[1::2]] == [
        True
    ] * 2


async def test_context_variables_that_a_policy_sets_are_seen_by_the_function() -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="none")
    seen: list[str] = []

    async def as_tenant(call: FunctionCall, proceed: FunctionProceed) -> Any:
        token = tenant.set(call.arguments["name"])
        try:
            return await proceed()
        finally:
            tenant.reset(token)

    @nh.natural_function
    async def look(name: str) -> None:
        """natural
        Look.
        """
        seen.append(tenant.get())

    @nh.natural_function
    def look_sync(name: str) -> None:
        """natural
        Look.
        """
        seen.append(tenant.get())

    async with nh.run(passing(), policies=Around(as_tenant)):
        await nh.parallel.map(look, ["a", "b"])
        await call_sync(look_sync, "c")
    assert sorted(seen) == ["a", "b", "c"]
    assert tenant.get() == "none"


async def test_a_function_may_run_in_a_task_of_the_policy_and_in_scopes_of_it() -> None:
    async def elsewhere(call: FunctionCall, proceed: FunctionProceed) -> Any:
        values: list[Any] = []

        async def run() -> None:
            with nh.scope(implicit_references={"bonus": 3}):
                values.append(await proceed())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
        return values[0]

    async with nh.run(passing(price=1), policies=Around(elsewhere)):
        assert await quote("Ada") == 1
        assert await call_sync(quote_sync, "Ada") == 1


async def test_proceed_makes_one_call_while_the_policy_lasts() -> None:
    kept: list[FunctionProceed] = []

    async def twice(call: FunctionCall, proceed: FunctionProceed) -> Any:
        await proceed()
        return await proceed()

    async def never(call: FunctionCall, proceed: FunctionProceed) -> Any:
        kept.append(proceed)
        return 4

    executor = passing(price=1)
    async with nh.run(executor):
        with (
            nh.scope(policies=Around(twice)),
            pytest.raises(nh.errors.HookError, match="`proceed` once, inside `around_function`"),
        ):
            await quote("Ada")
        with nh.scope(policies=Around(never)):
            assert await quote("Ada") == 4
        with pytest.raises(nh.errors.HookError, match="`proceed` once"):
            await kept[0]()
    assert len(executor.calls) == 1


@pytest.mark.filterwarnings("error")
async def test_misuse_is_named() -> None:
    class Synchronous(nh.Policy):
        def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:  # type: ignore[override]
            return 3

    class Unawaited(nh.Policy):
        async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
            return proceed()

    class Unset(nh.Policy):
        async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
            return nh.unset

    @nh.natural_function
    async def anything():  # type: ignore[no-untyped-def]
        """natural
        Look.
        """

    executor = passing(price=1)
    async with nh.run(executor):
        for policy, problem in (
            (Synchronous(), "Synchronous.around_function gave 3: it must be `async def`"),
            (Unawaited(), "Unawaited.around_function returned .*: an `await` is missing"),
            (Unset(), "Unset.around_function answered for"),
        ):
            with nh.scope(policies=policy):
                for function in (anything, lambda: quote("Ada"), lambda: call_sync(quote_sync, "Ada")):
                    with pytest.raises(nh.errors.HookError, match=problem):
                        await function()
    assert executor.calls == []


async def test_a_method_that_returns_what_proceed_returns_needs_no_async() -> None:
    class Passing(nh.Policy):
        def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
            return proceed()

    async with nh.run(passing(price=1), policies=Passing()):
        assert await quote("Ada") == 1


async def test_a_policy_calls_functions_in_a_scope_without_itself() -> None:
    asked: list[str] = []

    @nh.natural_function
    async def may(name: str) -> bool:
        """natural
        Return whether <name> may be called.
        """

    async def ask(call: FunctionCall, proceed: FunctionProceed) -> Any:
        asked.append(call.name)
        with nh.scope(policies=[], mode="replace"):
            if not await may(call.name):
                raise PermissionError(call.name)
        return await proceed()

    executor = ScriptedExecutor([return_response("True"), pass_response(price=1), return_response("False")])
    async with nh.run(executor, policies=Around(ask)):
        assert await quote("Ada") == 1
        with pytest.raises(PermissionError):
            await quote("Ada")
    assert asked == ["quote", "quote"]


async def test_a_policy_that_leads_to_itself_ends_in_an_error() -> None:
    async def ask(call: FunctionCall, proceed: FunctionProceed) -> Any:
        await quote("Eve")
        return await proceed()

    async with nh.run(passing(price=1), policies=Around(ask)):
        with pytest.raises(RecursionError):
            await quote("Ada")
        with nh.scope(policies=[], mode="replace"):
            assert await quote("Ada") == 1


async def test_many_synchronous_calls_within_each_other_do_not_run_out_of_threads() -> None:
    log = Log()

    @nh.natural_function
    def deep(depth: int) -> int:
        """natural
        Look.
        """
        return 0 if depth == 0 else 1 + deep(depth - 1)

    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens, before = 4, limiter.total_tokens
    try:
        with anyio.fail_after(30):
            async with nh.run(passing(), policies=log), anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(call_sync, deep, 5)
    finally:
        limiter.total_tokens = before
    assert len(log.calls) == 36


async def test_a_synchronous_function_works_in_a_worker_thread_meanwhile() -> None:
    threads: list[threading.Thread] = []

    @nh.natural_function
    def work() -> None:
        """natural
        Look.
        """
        threads.append(threading.current_thread())
        time.sleep(0.01)

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with nh.run(passing(), policies=Log()), anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await call_sync(work)
        tasks.cancel_scope.cancel()
    assert threads[0] is not threading.current_thread()
    assert ticks > 0


async def test_nothing_refers_to_a_call_that_has_ended() -> None:
    import gc
    import weakref

    class Value:
        pass

    kept: list[weakref.ref[Value]] = []

    @nh.natural_function
    async def use(value: Any) -> None:
        """natural
        Look.
        """

    async def through(call: FunctionCall, proceed: FunctionProceed) -> Any:
        return await proceed()

    async with nh.run(passing(), policies=Around(through)):
        gc.disable()
        try:
            value = Value()
            kept.append(weakref.ref(value))
            await use(value)
            del value
            await anyio.lowlevel.checkpoint()
            executor = nh.get_step_executor()
            executor.calls.clear()  # type: ignore[attr-defined]
            assert kept[0]() is None
        finally:
            gc.enable()


async def test_the_tree_shows_the_call_with_the_value_that_the_caller_got() -> None:
    async def answer(call: FunctionCall, proceed: FunctionProceed) -> Any:
        return await proceed() + 1

    async with nh.run(passing(price=1), policies=Around(answer)):
        root = ToldNode("run", "told")
        with using_node_writer(root):
            assert await quote("Ada") == 2
    (node,) = root.children
    assert (node.kind, node.outputs, [each.kind for each in node.children]) == (
        *("function", {"return": 2}, ["step"]),
    )
