"""Policies of the program's own: what each method may do, in which order, and when."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, model_response, pass_response, tool_call

pytestmark = pytest.mark.anyio

Result = TypeVar("Result")

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def act(result: int = 0) -> int:
    """natural
    Set <:result>.
    """
    return result


@nh.natural_function
async def answer() -> int:
    """natural
    Return the answer.
    """


def setting(expression: str) -> nh.models.ToolCall:
    return tool_call("nh_assign", target_path="result", expression=expression)


def running(*responses: Any, policies: Any = None, **arguments: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(responses or [model_response(setting("42"), DONE)])
    executor = nh.AgentStepExecutor.from_model(model=model)
    return model, nh.run(executor, policies=policies, **arguments)


class Diary(nh.Policy):
    """Writes down what it is called for."""

    def __init__(self, name: str = "", pages: list[str] | None = None) -> None:
        self.name = name
        self.pages: list[str] = [] if pages is None else pages

    def write(self, what: str) -> None:
        self.pages.append(f"{self.name} {what}".strip())

    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        self.write("into step")
        try:
            return await proceed()
        finally:
            self.write("out of step")

    async def before_request(self, call: nh.policies.ModelCall) -> None:
        self.write(f"before request to {call.model.name}")

    async def after_request(self, call: nh.policies.ModelCall) -> None:
        requests = 0 if call.usage is None else call.usage.requests
        self.write(f"after {requests} request: {call.finish_reason or type(call.error).__name__}")

    async def before_tool_call(self, call: nh.models.ToolCall) -> nh.models.ToolCall:
        self.write(f"before {call.name}")
        return call

    async def after_tool_call(self, result: nh.models.ToolResult) -> nh.models.ToolResult:
        self.write(f"after {result.name}")
        return result

    async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
        self.write(f"before commit of {dict(commit.bindings)}")


async def test_each_method_is_called_where_its_name_says() -> None:
    diary = Diary()
    model, run = running(model_response(setting("42")), model_response(DONE), policies=diary)
    async with run:
        assert await act() == 42
    request = f"before request to {model.name}"
    pages = diary.pages
    assert (pages[:2], pages[-4:]) == (
        ["into step", request],
        [request, "after 1 request: tool_calls", "before commit of {'result': 42}", "out of step"],
    )
    # a call is carried out while the rest of its response still arrives, or after it
    assert sorted(pages[2:-4]) == ["after 1 request: tool_calls", "after nh_assign", "before nh_assign"]
    assert pages.index("before nh_assign") < pages.index("after nh_assign")


async def test_policies_are_within_each_other_and_outer_ones_come_first() -> None:
    pages: list[str] = []
    _, run = running(policies=[Diary("outer", pages), Diary("middle", pages)])
    async with run:
        with nh.scope(policies=[Diary("inner", pages)]):
            await act()
    for asked, order in {
        "into step": ["outer", "middle", "inner"],
        "before request to scripted:model": ["outer", "middle", "inner"],
        "after 1 request: tool_calls": ["inner", "middle", "outer"],
        "before nh_assign": ["outer", "middle", "inner"],
        "after nh_assign": ["inner", "middle", "outer"],
        "before commit of {'result': 42}": ["outer", "middle", "inner"],
        "out of step": ["inner", "middle", "outer"],
    }.items():
        assert [page.partition(" ")[0] for page in pages if page.endswith(asked)] == order, asked


class Watch:
    """Oversight that writes down what it is asked about."""

    def __init__(self, pages: list[str]) -> None:
        self.pages = pages

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        self.pages.append("oversight before nh_assign")
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        self.pages.append("oversight before commit")
        return nh.oversight.Accept()


async def test_hooks_come_before_them_and_oversight_and_permissions_after() -> None:
    pages: list[str] = []
    hooks = nh.Hooks()
    hooks.on(nhh.BeforeToolCall, lambda event: pages.append("hooks before nh_assign"))
    hooks.on(nhh.PermissionDecided, lambda event: pages.append("permissions before nh_assign"))
    hooks.on(nhh.AfterToolCall, lambda event: pages.append("hooks after nh_assign"))
    hooks.on(nhh.BeforeCommit, lambda event: pages.append("hooks before commit"))
    _, run = running(
        model_response(setting("42")),
        model_response(DONE),
        policies=Diary("own", pages),
        hooks=hooks,
        oversight=Watch(pages),
        permissions=nh.permissions(deny=["nh_assign"], default="allow"),
    )
    async with run:
        await act()
    assert [page for page in pages if "nh_assign" in page or "commit" in page] == [
        "hooks before nh_assign",
        "own before nh_assign",
        "oversight before nh_assign",
        "permissions before nh_assign",
        "own after nh_assign",
        "hooks after nh_assign",
        "hooks before commit",
        "own before commit of {}",
        "oversight before commit",
    ]


async def test_what_it_sets_around_a_step_everything_in_the_step_sees() -> None:
    customer: ContextVar[str] = ContextVar("customer", default="nobody")
    seen: list[str] = []

    async def look() -> None:
        seen.append(customer.get())

    def glance() -> None:
        seen.append(customer.get())

    class OnBehalf(nh.Policy):
        async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
            token = customer.set("Ada")
            try:
                return await proceed()
            finally:
                customer.reset(token)

    calls = (tool_call("nh_eval", expression="look()"), tool_call("nh_eval", expression="glance()"))
    _, run = running(model_response(*calls), model_response(DONE), policies=OnBehalf())

    @nh.natural_function
    async def work() -> None:
        """natural
        Call <look> and <glance>.
        """

    async with run:
        await work()
        assert (seen, customer.get()) == (["Ada", "Ada"], "nobody")


class Shorter(nh.Policy):
    """Asks for less, and shows less."""

    async def before_request(self, call: nh.policies.ModelCall) -> None:
        call.request = replace(call.request, settings={**call.request.settings, "max_tokens": 7})

    async def before_tool_call(self, call: nh.models.ToolCall) -> nh.models.ToolCall:
        return replace(call, arguments=call.arguments.replace("1 / 0", "42"))

    async def after_tool_call(self, result: nh.models.ToolResult) -> nh.models.ToolResult:
        return replace(result, content=("shown",))

    async def before_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.StepCommit:
        return commit.changed(bindings={"result": str(commit.bindings["result"] + 1)})


async def test_what_it_changes_is_what_happens_and_a_commit_is_validated() -> None:
    model, run = running(model_response(setting("1 / 0")), model_response(DONE), policies=Shorter())
    async with run:
        assert await act() == 43  # from the text "43"
    assert model.requests[0].settings["max_tokens"] == 7
    assert model.requests[1].messages[-1].content == ("shown",)


async def test_a_value_that_does_not_fit_fails_the_step_and_names_the_policy() -> None:
    class Wrong(nh.Policy):
        async def before_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.StepCommit:
            return commit.changed(bindings={"result": "a lot"})

    _, run = running(policies=Wrong())
    async with run:
        with pytest.raises(nh.errors.HookError, match=r"the commit as .*Wrong changed it failed") as caught:
            await act()
    assert "Wrong" in caught.value.hook


async def test_a_return_value_that_it_gives_before_there_is_one_is_returned_and_nothing_evaluated() -> None:
    class Seven(nh.Policy):
        async def before_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.StepCommit:
            return commit.changed(return_value="7")

    diary = Diary()
    returned = tool_call("nh_outcome", kind="return", return_expression="1 / 0")
    _, run = running(model_response(returned), policies=[Seven(), diary])
    async with run:
        assert await answer() == 7  # from the text "7"
    assert diary.pages.count("before commit of {}") == 1


@pytest.mark.parametrize("changes", [{"return_value": 7}, {"outcome": nh.executors.PassStepOutcome()}])
async def test_what_cannot_be_changed_in_a_commit_fails_the_step(changes: dict[str, Any]) -> None:
    class Wrong(nh.Policy):
        async def before_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.StepCommit:
            return commit.changed(**changes)

    _, run = running(policies=Wrong())
    async with run:
        with pytest.raises(nh.errors.HookError, match=r"the commit as .*Wrong changed it failed"):
            await act()


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        ("before_commit", False),
        ("before_commit", nh.oversight.Reject(reason="no")),
        (
            "before_commit",
            nh.oversight.StepCommit(step_id="", outcome=nh.executors.PassStepOutcome(), bindings=None),
        ),  # type: ignore[arg-type]
        ("before_tool_call", None),
        ("before_tool_call", nh.models.ToolCall(id="call_0", name="nh_assign", arguments={})),  # type: ignore[arg-type]
        ("after_tool_call", None),
        ("after_tool_call", nh.models.ToolResult(call_id="call_0", name="nh_assign", content="text")),  # type: ignore[arg-type]
        ("before_request", None),
    ],
)
async def test_a_method_that_gives_something_else_fails_the_step_and_is_named(
    method: str, wrong: object
) -> None:
    async def give(self: nh.Policy, given: Any) -> object:
        if method == "before_request":
            given.request = wrong
        return wrong

    wrong_one: Any = type("Wrong", (nh.Policy,), {method: give})
    _, run = running(model_response(setting("42")), model_response(DONE), policies=wrong_one())
    async with run:
        with pytest.raises(nh.errors.HookError, match=rf"Wrong\.{method} gave .* instead of a ") as caught:
            await act()
    assert caught.value.hook == f"Wrong.{method}"
    assert "42" not in caught.value.message_without_content


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
@pytest.mark.parametrize("method", ["before_tool_call", "after_tool_call", "before_commit"])
@pytest.mark.parametrize("error", [nh.ExecutionError, nh.ToolValidationError])
async def test_no_model_is_told_of_an_error_that_is_like_that_of_an_answer(
    transport: Any, method: str, error: type[nh.NighthawkError]
) -> None:
    async def fail(self: nh.Policy, given: object) -> None:
        raise error("the inventory is offline")

    failing: Any = type("Failing", (nh.Policy,), {method: fail})
    model = ScriptedModel(
        [model_response(setting("42"), DONE)] * 2
        if transport == "tool"
        else [model_response(text='{"bindings": {"result": 42}, "kind": "pass"}')] * 2,
        capabilities=nh.models.ModelCapabilities(default_transport=transport),
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), policies=failing()):
        with pytest.raises(nh.NighthawkError, match=r"the inventory is offline") as caught:
            await act()
    assert error in (type(caught.value), type(caught.value.__cause__))
    assert len(model.requests) == 1


async def test_permissions_are_asked_about_the_tool_that_it_calls_instead() -> None:
    deleted: list[str] = []

    class Instead(nh.Policy):
        async def before_tool_call(self, call: nh.models.ToolCall) -> nh.models.ToolCall:
            if call.name == "nh_assign":
                return call
            return replace(call, name="delete", arguments='{"path": "x"}')

    permissions = nh.permissions(allow=["read"], deny=["delete"], default="allow")
    calls = (tool_call("read", path="x"), tool_call("nh_eval", expression="1"))
    model, run = running(
        model_response(*calls),
        model_response(setting("42"), DONE),
        policies=Instead(),
        permissions=permissions,
    )
    async with run:

        @nh.tool
        def read(path: str) -> str:
            """Read a file."""
            return path

        @nh.tool
        def delete(path: str) -> None:
            """Delete a file."""
            deleted.append(path)

        assert await act() == 42
    results = model.requests[1].messages[-1].results  # type: ignore[union-attr]
    assert [result.name for result in results] == ["read", "nh_eval"]
    assert all("delete is not permitted" in str(result.content) for result in results)
    assert deleted == []


async def test_a_value_of_an_answer_is_set_by_no_other_tool() -> None:
    class Renaming(nh.Policy):
        async def before_tool_call(self, call: nh.models.ToolCall) -> nh.models.ToolCall:
            return replace(call, name="nh_eval", arguments='{"expression": "1"}')

    answered = model_response(text='{"bindings": {"result": 42}, "kind": "pass"}')
    model = ScriptedModel([answered], capabilities=nh.models.ModelCapabilities(default_transport="direct"))
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), policies=Renaming()):
        with pytest.raises(nh.errors.HookError, match=r"set by nh_assign alone"):
            await act()


async def test_all_see_how_a_request_ended_also_when_some_fail() -> None:
    class Failing(nh.Policy):
        async def after_request(self, call: nh.policies.ModelCall) -> None:
            raise TooLateError

    pages: list[str] = []
    hooks = nh.Hooks()
    hooks.on(nhh.AfterModelRequest, lambda event: pages.append("hooks"))
    _, run = running(
        policies=[Diary("outer", pages), Failing(), Failing(), Diary("inner", pages)], hooks=hooks
    )
    async with run:
        with pytest.raises(TooLateError) as caught:
            await act()
    assert [page.partition(" ")[0] for page in pages if "after 1" in page or page == "hooks"] == [
        "inner",
        "outer",
        "hooks",
    ]
    assert caught.value.__notes__ == ["TooLateError"]


async def test_a_call_that_it_refuses_is_not_carried_out_and_the_model_is_told_why() -> None:
    class Polite(nh.Policy):
        async def before_tool_call(self, call: nh.models.ToolCall) -> nh.models.ToolCall:
            if "please" not in call.arguments:
                raise nh.errors.ToolBoundaryError(
                    message="say please", kind="oversight", guidance="Write it as a comment."
                )
            return call

    diary = Diary()
    model, run = running(
        model_response(setting("1")), model_response(setting("2 # please"), DONE), policies=[Polite(), diary]
    )
    async with run:
        assert await act() == 2
    (content,) = model.requests[1].messages[-1].content
    assert "say please" in content
    assert "Write it as a comment." in content
    assert diary.pages.count("before nh_assign") == 1


async def test_a_commit_that_it_rejects_goes_back_to_the_model() -> None:
    class Even(nh.Policy):
        async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
            if commit.bindings["result"] % 2:
                raise nh.errors.StepRejectedError(f"{commit.step_id}: {commit.bindings['result']} is odd")

    model, run = running(
        model_response(setting("1"), DONE), model_response(setting("2"), DONE), policies=Even()
    )
    async with run:
        assert await act() == 2
    assert "1 is odd" in str(model.requests[1].messages[-1])

    executor = ScriptedExecutor(responses=[pass_response(result=1)])
    async with nh.run(executor, policies=Even()):
        with pytest.raises(nh.errors.StepRejectedError, match="1 is odd"):
            await act()


async def test_a_return_expression_is_evaluated_once_and_only_if_nobody_is_against_it() -> None:
    evaluated: list[int] = []

    def compute() -> int:
        evaluated.append(6 * 7)
        return evaluated[-1]

    @nh.natural_function
    async def ask() -> int:
        """natural
        Return what <compute> gives.
        """

    class Doubled(nh.Policy):
        async def before_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.StepCommit:
            return commit.changed(return_value=commit.return_value * 2)

    class Against(nh.Policy):
        async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
            raise nh.errors.StepRejectedError("no")

    returned = model_response(tool_call("nh_outcome", kind="return", return_expression="compute()"))
    _, run = running(returned, policies=Doubled())
    async with run:
        assert await ask() == 84
        assert evaluated == [42]
    _, run = running(*[returned] * 9, policies=[Doubled(), Against()])
    async with run:
        with pytest.raises(nh.errors.StepRejectedError, match="no"):
            await ask()
    assert evaluated == [42]


class TooLateError(Exception):
    """What a program's own policy raises."""


@pytest.mark.parametrize(
    "method",
    [
        "around_step",
        "before_request",
        "after_request",
        "before_tool_call",
        "after_tool_call",
        "before_commit",
    ],
)
async def test_what_it_raises_leaves_the_step_bare_and_nothing_is_committed(method: str) -> None:
    async def fail(*arguments: object) -> None:
        raise TooLateError(method)

    failing = type("Failing", (nh.Policy,), {method: fail})()
    diary = Diary()
    _, run = running(model_response(setting("42")), model_response(DONE), policies=[diary, failing])

    @nh.natural_function
    async def keep() -> int:
        result = 0
        try:
            """natural
            Set <:result>.
            """
        except TooLateError:
            return result
        return -1

    async with run:
        assert await keep() == 0
    assert diary.pages[-1] == "out of step"


class Twice(nh.Policy):
    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        await proceed()
        return await proceed()


class Forgetful(nh.Policy):
    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        await proceed()
        return 5  # type: ignore[return-value]


class Idle(nh.Policy):
    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        return None  # type: ignore[return-value]


class Swallowing(nh.Policy):
    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:  # type: ignore[return]
        with suppress(nh.ExecutionError):
            return await proceed()


class Impatient(nh.Policy):
    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:  # type: ignore[return]
        with anyio.CancelScope() as scope:
            scope.cancel()
            return await proceed()


@pytest.mark.parametrize("with_hooks", [False, True])
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Twice(), r"`proceed` once"),
        (Forgetful(), r"^Forgetful\.around_step must return what `proceed\(\)` gave, not 5"),
        (Idle(), r"Idle\.around_step must return what `proceed\(\)` gave, not None"),
        (Swallowing(), r"Swallowing\.around_step must return"),
        (Impatient(), r"Impatient\.around_step must return"),
    ],
)
async def test_what_does_not_proceed_once_and_return_that_fails_the_step_and_hooks_are_told(
    policy: nh.Policy, message: str, with_hooks: bool
) -> None:
    ends: list[str] = []
    hooks = nh.Hooks()
    hooks.on(nhh.StepFinished, lambda event: ends.append(type(event.error).__name__))
    ended = model_response(setting("1"), DONE) if type(policy) is not Swallowing else model_response()
    _, run = running(
        *[ended] * 9, policies=policy, hooks=[hooks] if with_hooks else [], budget=nh.budget(turns=9)
    )
    async with run:
        with pytest.raises(nh.errors.HookError, match=message):
            await act()
    assert ends == ["HookError"] * (with_hooks and type(policy) is not Idle)


async def test_proceeding_after_the_step_is_refused() -> None:
    class Late(nh.Policy):
        async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
            self.proceed = proceed
            raise TooLateError

    late = Late()
    _, run = running(policies=late)
    async with run:
        with pytest.raises(TooLateError):
            await act()
        with pytest.raises(nh.errors.HookError, match=r"once, inside `around_step`"):
            await late.proceed()


async def test_a_budget_of_seconds_ends_the_wait_before_a_step() -> None:
    class Waiting(nh.Policy):
        async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
            await anyio.sleep_forever()
            return await proceed()

    model, run = running(policies=Waiting(), budget=nh.budget(seconds=0.01))
    async with run:
        with pytest.raises(nh.BudgetExceededError, match=r"seconds are over"):
            await act()
    assert model.requests == []


async def test_a_policy_that_cancels_the_step_cancels_what_the_step_does() -> None:
    ended: list[str] = []

    class Patience(nh.Policy):
        def __init__(self) -> None:
            self.scope = anyio.CancelScope()

        async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
            with self.scope:
                return await proceed()
            raise TooLateError

    patience = Patience()

    async def sleep() -> None:
        patience.scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    @nh.natural_function
    async def wait_for_ever() -> None:
        """natural
        Call <sleep>.
        """

    _, run = running(model_response(tool_call("nh_eval", expression="sleep()")), policies=patience)
    async with run:
        with pytest.raises(TooLateError):
            await wait_for_ever()
    assert ended == ["cancelled"]


async def test_a_scope_adds_its_policies_or_replaces_them_and_each_object_is_called_once() -> None:
    pages: list[str] = []
    outer, inner = Diary("outer", pages), Diary("inner", pages)
    one = model_response(setting("1"), DONE)
    _, run = running(*[one] * 4, policies=outer)

    async def entered(**arguments: Any) -> list[str]:
        pages.clear()
        with nh.scope(**arguments):
            await act()
        return [page for page in pages if page.endswith("into step")]

    async with run:
        assert await entered(policies=[inner, outer]) == ["outer into step", "inner into step"]
        assert await entered(policies=inner, mode="replace") == ["inner into step"]
        assert await entered(policies=None, mode="replace") == ["outer into step"]
        assert await entered(policies=[], mode="replace") == []


async def test_data_classes_that_are_equal_are_two_policies() -> None:
    pages: list[str] = []

    @dataclass
    class Stamp(nh.Policy):
        text: str

        async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
            pages.append(self.text)

    stamps = [Stamp("a"), Stamp("a")]
    _, run = running(policies=[*stamps, stamps[0]])
    async with run:
        await act()
    assert pages == ["a", "a"]


async def test_a_run_inside_a_run_has_only_those_that_hold_there() -> None:
    class Everywhere(Diary):
        holds_in_inner_runs = True

    pages: list[str] = []
    executor = ScriptedExecutor(responses=[pass_response(result=1)])
    async with (
        nh.run(executor, policies=[Diary("here", pages), Everywhere("everywhere", pages)]),
        nh.run(executor),
    ):
        await act()
    assert {page.partition(" ")[0] for page in pages} == {"everywhere"}


@pytest.mark.parametrize("bad", [Diary, object(), "policy", 7, [nh.Hooks()], [None], iter([Diary()])])
async def test_what_is_no_policy_is_refused(bad: Any) -> None:
    executor = ScriptedExecutor(responses=[])
    with pytest.raises(nh.NighthawkError, match=r"policies must be objects of classes derived from"):
        async with nh.run(executor, policies=bad):
            pytest.fail("entered")
    async with nh.run(executor):
        with pytest.raises(nh.NighthawkError, match=r"policies must be objects of classes derived from"):
            nh.scope(policies=bad)


async def test_it_is_called_for_the_steps_that_it_brings_about_unless_these_have_a_scope_without_it() -> None:
    class Asking(nh.Policy):
        def __init__(self, **inside: Any) -> None:
            self.inside = inside

        async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
            with nh.scope(**self.inside):
                await answer()

    returned = model_response(tool_call("nh_outcome", kind="return", return_expression="42"))
    model, run = running(*[returned] * 9, policies=Asking(), max_depth=3)
    async with run:
        with pytest.raises(nh.errors.HookError, match="max_depth"):
            await answer()
    assert len(model.requests) == 3
    model, run = running(*[returned] * 9, policies=Asking(policies=[], mode="replace"))
    async with run:
        assert await answer() == 42
    assert len(model.requests) == 2


async def test_steps_at_the_same_time_share_one_policy_and_keep_their_own_context() -> None:
    entered: ContextVar[int] = ContextVar("entered")
    seen: list[int] = []

    class Numbered(nh.Policy):
        def __init__(self) -> None:
            self.count = 0

        async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
            self.count += 1
            token = entered.set(self.count)
            try:
                return await proceed()
            finally:
                entered.reset(token)

        async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
            seen.append(entered.get())

    policy = Numbered()
    executor = ScriptedExecutor(responses=[pass_response(result=1)] * 20)
    async with nh.run(executor, policies=policy), anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(act)
    assert (sorted(seen), policy.count) == (list(range(1, 21)), 20)


class Known(nh.Policy):
    """Answers a step itself."""

    def __init__(self, outcome: Any, **bindings: Any) -> None:
        self.outcome = outcome
        self.bindings = bindings

    async def around_step(
        self, step: nh.policies.Step, proceed: nh.policies.StepProceed
    ) -> nh.policies.StepEnd:
        assert step.context.write_names == ("result",)
        return await proceed.answer(self.outcome, self.bindings)


async def test_a_policy_may_answer_a_step_whose_executor_is_not_asked() -> None:
    ends: list[str] = []
    hooks = nh.Hooks()
    hooks.on(nhh.StepStarted, lambda event: ends.append("started"))
    hooks.on(nhh.StepFinished, lambda event: ends.append(event.outcome.kind if event.outcome else "failed"))
    policy = Known(nh.executors.PassStepOutcome(), result="42")
    budget = nh.budget(steps=1)
    model, run = running(policies=[policy, diary := Diary()], hooks=hooks, budget=budget)
    async with run:
        assert [await act(), await act()] == [42, 42]  # validated: from the text "42"
    assert (model.requests, ends) == ([], ["started", "pass"] * 2)
    assert [page for page in diary.pages if "step" in page] == []  # it is inside
    assert diary.pages == ["before commit of {'result': 42}"] * 2
    assert budget.spent.steps == 0  # budgets are inside, too


@pytest.mark.parametrize(
    ("outcome", "bindings"),
    [
        (nh.executors.PassStepOutcome(), {"result": "many"}),
        (nh.executors.PassStepOutcome(), {"other": 1}),
        (nh.executors.BreakStepOutcome(), {}),
    ],
)
async def test_an_answer_of_a_policy_is_validated_as_one_of_an_executor(outcome: Any, bindings: Any) -> None:
    _, run = running(policies=Known(outcome, **bindings))
    async with run:
        with pytest.raises(nh.ExecutionError):
            await act()


async def test_a_policy_may_answer_a_step_with_an_expression_that_is_evaluated_in_it() -> None:
    class Quick(nh.Policy):
        async def around_step(self, step: Any, proceed: Any) -> Any:
            return await proceed.answer(nh.executors.ReturnStepOutcome(return_expression="6 * 7"))

    model, run = running(policies=Quick())
    async with run:
        assert await answer() == 42
    assert model.requests == []


async def test_a_policy_answers_a_step_or_executes_it_and_not_both() -> None:
    class Both(nh.Policy):
        async def around_step(self, step: Any, proceed: Any) -> Any:
            await proceed()
            return await proceed.answer(nh.executors.PassStepOutcome())

    _, run = running(policies=Both())
    async with run:
        with pytest.raises(nh.errors.HookError, match="`proceed` once"):
            await act()


async def test_a_policy_may_answer_a_request_which_is_not_sent_and_costs_nothing() -> None:
    class Cache(nh.Policy):
        def __init__(self) -> None:
            self.kept: dict[str, list[nh.models.ModelEvent]] = {}

        @asynccontextmanager
        async def around_request(self, call: Any, open_request: Any) -> AsyncGenerator[Any, None]:
            key = str(call.request)
            if key not in self.kept:
                async with open_request() as events:
                    self.kept[key] = [event async for event in events]
            async with nh.policies.replayed(self.kept[key]) as events:
                yield events

    told: list[tuple[int, str | None]] = []
    hooks = nh.Hooks()
    hooks.on(
        nhh.AfterModelRequest,
        lambda event: told.append((0 if event.usage is None else event.usage.requests, event.finish_reason)),
    )
    budget = nh.budget(turns=1)
    model, run = running(policies=[Cache(), diary := Diary()], hooks=hooks, budget=budget)
    async with run:
        assert [await act(), await act(), await act()] == [42, 42, 42]
    assert len(model.requests) == 1
    assert budget.spent.turns == 1
    assert told == [(1, "tool_calls"), (0, "tool_calls"), (0, "tool_calls")]
    assert [page for page in diary.pages if "request" in page] == [
        f"before request to {model.name}",
        "after 1 request: tool_calls",
    ]


async def test_what_is_around_a_request_sees_its_failure_and_may_not_give_anything() -> None:
    seen: list[str] = []

    class Seeing(nh.Policy):
        @asynccontextmanager
        async def around_request(self, call: Any, open_request: Any) -> AsyncGenerator[Any, None]:
            try:
                async with open_request() as events:
                    yield events
            except nh.ModelError as error:
                seen.append(f"{type(error).__name__} {type(call.error).__name__}")
                raise

    class Wrong(nh.Policy):
        def around_request(self, call: Any, open_request: Any) -> Any:
            return 7

    broken = nh.errors.ModelProviderError("overloaded")
    _, run = running(broken, policies=Seeing())
    async with run:
        with pytest.raises(nh.ModelError):
            await act()
    assert seen == ["ModelProviderError ModelProviderError"]
    _, run = running(policies=Wrong())
    async with run:
        with pytest.raises(nh.errors.HookError, match=r"Wrong\.around_request gave int instead of an async"):
            await act()


async def test_a_policy_may_answer_a_tool_call_which_is_not_carried_out() -> None:
    called: list[str] = []

    class Memory(nh.Policy):
        def __init__(self) -> None:
            self.kept: dict[str, nh.models.ToolResult] = {}

        async def around_tool_call(self, call: Any, proceed: nh.policies.ToolCallProceed) -> Any:
            if proceed.tool is None:
                return await proceed()
            assert proceed.tool.name == "fetch"
            if call.arguments not in self.kept:
                self.kept[call.arguments] = await proceed()
            return replace(self.kept[call.arguments], call_id=call.id)

    look = model_response(tool_call("fetch", path="a"))
    model, run = running(
        look,
        look,
        model_response(setting("1"), DONE),
        policies=Memory(),
        budget=nh.budget(tool_calls=2),
    )
    async with run:

        @nh.tool
        def fetch(path: str) -> str:
            """Fetch a file."""
            called.append(path)
            return f"text of {path}"

        assert await act() == 1
    assert called == ["a"]
    first, second = (request.messages[-1].results[0] for request in model.requests[1:])  # type: ignore[union-attr]
    assert first.content == second.content
    assert "text of a" in str(first.content)


async def test_the_value_of_a_return_expression_is_known_once_all_inside_have_decided() -> None:
    order: list[object] = []

    def compute() -> int:
        order.append("evaluated")
        return 42

    @nh.natural_function
    async def ask() -> int:
        """natural
        Return what <compute> gives.
        """

    class Doubled(nh.Policy):
        async def around_commit(self, commit: Any, proceed: nh.policies.CommitProceed) -> Any:
            value = await proceed.value()
            order.append(value)
            assert commit.return_value == value
            return await proceed(commit.changed(return_value=value * 2))

    class Inside(nh.Policy):
        async def around_commit(self, commit: Any, proceed: nh.policies.CommitProceed) -> Any:
            order.append("inside")
            return await proceed()

    returned = model_response(tool_call("nh_outcome", kind="return", return_expression="compute()"))
    _, run = running(returned, policies=[Doubled(), Inside()])
    async with run:
        assert await ask() == 84
    assert order == ["inside", "evaluated", 42, "inside"]  # the last one about the change


async def test_a_commit_goes_on_only_with_what_proceeding_gave() -> None:
    class Own(nh.Policy):
        def __init__(self, given: Any) -> None:
            self.given = given

        async def around_commit(self, commit: Any, proceed: Any) -> Any:
            return self.given

    for given in (None, 7, nh.policies.StepResult(kind="pass")):
        _, run = running(policies=Own(given))
        async with run:
            with pytest.raises(
                nh.errors.HookError, match=r"Own\.around_commit must return what `proceed` gave"
            ):
                await act()


def test_a_method_and_its_short_form_in_one_class_are_a_mistake() -> None:
    with pytest.raises(TypeError, match=r"defines around_commit and before_commit, which is short for it"):
        type("Both", (nh.Policy,), {"around_commit": None, "before_commit": None})


class Extent(nh.Policy):
    """Writes down which runs and scopes are entered and left."""

    def __init__(self, pages: list[str], *, is_async: bool) -> None:
        self.pages = pages
        self.is_async = is_async

    def scope(self, kind: str) -> Any:
        return self._entered_async(kind) if self.is_async else self._entered(kind)

    @contextmanager
    def _entered(self, kind: str) -> Generator[None, None, None]:
        self.pages.append(f"into {kind}")
        yield
        self.pages.append(f"out of {kind}")

    @asynccontextmanager
    async def _entered_async(self, kind: str) -> AsyncGenerator[None, None]:
        with self._entered(kind):
            yield


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_policy_may_last_as_long_as_a_run_or_a_scope(is_async: bool) -> None:
    pages: list[str] = []
    executor = ScriptedExecutor(responses=[pass_response(result=1)])
    outer, inner = Extent(pages, is_async=is_async), Extent(pages, is_async=is_async)
    async with nh.run(executor, policies=outer), nh.scope(policies=inner):
        await act()
        pages.append("step")
    # the scope has both policies
    assert pages == ["into run", *["into scope"] * 2, "step", *["out of scope"] * 2, "out of run"]


async def test_what_is_entered_with_async_with_cannot_be_in_a_scope_that_is_not() -> None:
    pages: list[str] = []
    async with nh.run(ScriptedExecutor(responses=[])):
        with nh.scope(policies=Extent(pages, is_async=False)):
            assert pages == ["into scope"]
        scope = nh.scope(policies=Extent(pages, is_async=True))
        with pytest.raises(nh.errors.HookError, match=r"Extent\.scope gave what is entered with `async"):
            scope.__enter__()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_policy_is_told_of_what_no_method_is_around(is_async: bool) -> None:
    told: list[str] = []

    class Told(nh.Policy):
        def on_event(self, event: object) -> Any:
            told.append(type(event).__name__)
            return anyio.lowlevel.checkpoint() if is_async else None

    _, run = running(
        model_response(tool_call("nh_eval", expression="1")),
        model_response(setting("1"), DONE),
        policies=Told(),
        oversight=Watch([]),
        permissions=nh.permissions(deny=["nh_eval"], default="allow"),
    )
    async with run:
        if is_async:  # permissions decide in synchronous code
            with pytest.raises(nh.errors.HookError, match=r"Told\.on_event is async, but this Permission"):
                await act()
        else:
            assert await act() == 1
    assert told[:2] == ["OversightDecided", "PermissionDecided"]
