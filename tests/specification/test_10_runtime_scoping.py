"""Specification 10: runs, scopes, and what asks about them."""

from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.environment import shared_in_run
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

ACCEPTING_ALL = pass_response()


@nh.natural_function
async def act(text: str = "text") -> str:
    result = "untouched"
    """natural
    Change <:result>.
    """
    return result


@nh.natural_function
def act_now() -> object:
    """natural
    Do nothing.
    """


class Hooks:
    """An oversight that accepts everything."""

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        return nh.oversight.Accept()


def passing() -> ScriptedExecutor:
    return ScriptedExecutor(default_response=ACCEPTING_ALL)


def prompting() -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel(lambda request: model_response(tool_call("nh_outcome", kind="pass")))
    return model, nh.AgentStepExecutor.from_model(model=model)


# ---- run


async def test_10_run_replaces_the_step_executor_and_gives_it_back() -> None:
    outer, inner = passing(), passing()
    async with nh.run(outer):
        assert nh.get_step_executor() is outer
        async with nh.run(inner):
            assert nh.get_step_executor() is inner
            await act()
        assert nh.get_step_executor() is outer
    assert (len(outer.calls), len(inner.calls)) == (0, 1)


async def test_10_run_makes_an_execution_ref_or_takes_the_given_run_id() -> None:
    async with nh.run(passing()) as run:
        reference = nh.get_execution_ref()
        assert reference == run.execution_ref
        assert reference.step_id is None
        async with nh.run(passing()):
            assert nh.get_execution_ref().run_id != reference.run_id
        with nh.run(passing(), run_id="golden thread"):
            other = nh.get_execution_ref()
            assert other.run_id == "golden thread"
            assert other.scope_id not in (reference.scope_id, "golden thread")
        assert nh.get_execution_ref() == reference


async def fail_inside(run: Any, entered_with: str) -> None:
    if entered_with == "with":
        with run:
            raise LookupError("bare")
    async with run:
        raise LookupError("bare")


@pytest.mark.parametrize("entered_with", ["with", "async with"])
async def test_10_run_ends_with_its_extent_also_when_its_body_fails(entered_with: str) -> None:
    with pytest.raises(LookupError, match="bare"):
        await fail_inside(nh.run(passing()), entered_with)
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        nh.get_execution_ref()


@pytest.mark.parametrize("executor", [None, "executor", object(), ScriptedExecutor])
async def test_10_run_refuses_what_is_no_step_executor(executor: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="is no step executor"):
        nh.run(executor)


async def test_10_a_run_can_be_entered_once_and_a_second_try_does_not_disturb_it() -> None:
    with nh.run(passing()) as run:
        with pytest.raises(nh.NighthawkError, match="entered once"):
            run.__enter__()
        with pytest.raises(nh.NighthawkError, match="entered once"):
            await run.__aenter__()
        assert nh.get_execution_ref() == run.execution_ref
        with pytest.warns(RuntimeWarning, match="blocks"):
            assert act_now() is None
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        nh.get_execution_ref()


async def test_10_the_runs_task_group_ends_before_the_run() -> None:
    results: list[str] = []

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        results.append(await act())

    async with nh.run(passing()) as run:
        run.task_group.start_soon(work)
    assert results == ["untouched"]
    with pytest.raises(nh.NighthawkError, match="active run"):
        _ = run.task_group


async def fail(message: str) -> None:
    raise LookupError(message)


async def run_tasks(*messages: str) -> None:
    async with nh.run(passing()) as run:
        for message in messages:
            run.task_group.start_soon(fail, message)


async def test_10_one_failing_task_of_the_run_is_raised_bare_and_several_as_a_group() -> None:
    with pytest.raises(LookupError, match="one"):
        await run_tasks("one")
    with pytest.raises(ExceptionGroup) as caught:
        await run_tasks("one", "two")
    assert sorted(str(error) for error in caught.value.exceptions) == ["one", "two"]


async def test_10_a_failing_body_cancels_the_tasks_of_the_run() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    async def body() -> None:
        async with nh.run(passing()) as run:
            run.task_group.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            raise LookupError("body")

    with pytest.raises(LookupError, match="body"):
        await body()
    assert ended == ["cancelled"]


async def test_10_cancelling_a_run_cancels_its_tasks_and_goes_no_further_than_its_scope() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    with anyio.CancelScope() as scope:
        async with nh.run(passing()) as run:
            run.task_group.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert ended == ["cancelled"]
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        nh.get_execution_ref()


async def test_10_a_step_after_the_end_of_its_run_is_refused() -> None:
    ended = anyio.Event()

    async def outlive() -> None:
        await ended.wait()
        with pytest.raises(nh.NighthawkError, match="has ended"):
            await act()

    async with anyio.create_task_group() as outer:
        async with nh.run(passing()):
            outer.start_soon(outlive)
        ended.set()


async def test_10_a_step_without_a_run_names_what_to_do() -> None:
    with pytest.raises(nh.NighthawkError, match=r"async with nighthawk_async.run"):
        await act()


@pytest.mark.parametrize(
    "accessor",
    [
        nh.get_step_executor,
        nh.get_execution_ref,
        nh.get_usage_meter,
        nh.runtime.get_system_prompt_suffix_fragments,
        nh.runtime.get_user_prompt_suffix_fragments,
        nh.runtime.get_implicit_references,
        nh.oversight.get_oversight,
        nh.get_current_step_context,
        nh.get_current_step_actor,
        lambda: nh.scope().__enter__(),
    ],
)
def test_10_every_accessor_raises_when_unset(accessor: Any) -> None:
    with pytest.raises(nh.NighthawkError, match=r"No (run|step) is active"):
        accessor()


async def test_10_between_steps_there_is_no_step_context() -> None:
    async with nh.run(passing()):
        for accessor in (nh.get_current_step_context, nh.get_current_step_actor):
            with pytest.raises(nh.NighthawkError, match="No step is active"):
                accessor()


# ---- scope


async def test_10_scope_keeps_the_run_id_makes_a_scope_id_and_gives_the_executor() -> None:
    executor = passing()
    async with nh.run(executor):
        outer = nh.get_execution_ref()
        with nh.scope() as resolved:
            assert resolved is executor
            inner = nh.get_execution_ref()
            assert inner.run_id == outer.run_id
            assert inner.scope_id != outer.scope_id
        async with nh.scope() as resolved:
            assert resolved is executor
            assert nh.get_execution_ref().scope_id not in (outer.scope_id, inner.scope_id)
        assert nh.get_execution_ref() == outer


async def test_10_a_scope_can_be_entered_once() -> None:
    async with nh.run(passing()):
        scope = nh.scope()
        with scope:
            pass
        with pytest.raises(nh.NighthawkError, match="entered once"):
            scope.__enter__()


async def test_10_scope_takes_another_executor() -> None:
    outer, inner = passing(), ScriptedExecutor([pass_response(result="inner")])
    async with nh.run(outer):
        with nh.scope(step_executor=inner) as resolved:
            assert resolved is inner
            assert await act() == "inner"
        with pytest.raises(nh.NighthawkError, match="is no step executor"):
            nh.scope(step_executor="executor")  # type: ignore[arg-type]


async def test_10_scope_gives_the_executor_another_configuration() -> None:
    model, executor = prompting()
    configuration = nh.StepExecutorConfiguration(system_prompt_suffix_fragments=("Be brief.",))
    async with nh.run(executor):
        with nh.scope(step_executor_configuration=configuration) as resolved:
            assert isinstance(resolved, nh.AgentStepExecutor)
            assert resolved.configuration is configuration
            await act()
        await act()
    assert model.requests[0].system_prompt.endswith("Be brief.")
    assert not model.requests[1].system_prompt.endswith("Be brief.")


async def test_10_a_managed_agent_is_rebuilt_for_another_configuration() -> None:
    def configured(name: str) -> nh.StepExecutorConfiguration:
        return nh.StepExecutorConfiguration(
            model=f"openai-chat:{name}", model_settings={"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}
        )

    executor = nh.AgentStepExecutor.from_configuration(configuration=configured("first"))
    async with nh.run(executor):
        with nh.scope(step_executor_configuration=configured("second")) as resolved:
            assert isinstance(resolved, nh.AgentStepExecutor)
            assert resolved.agent_is_managed
            assert resolved.model is not None
            assert resolved.model.name == "openai-chat:second"
        assert executor.model is not None
        assert executor.model.name == "openai-chat:first"


async def test_10_an_executor_without_configuration_refuses_one() -> None:
    async with nh.run(passing()):
        with pytest.raises(nh.NighthawkError, match="ScriptedExecutor takes no StepExecutorConfiguration"):
            nh.scope(step_executor_configuration=nh.StepExecutorConfiguration())


async def test_10_oversight_omitted_is_inherited_and_none_clears_it() -> None:
    hooks = Hooks()
    async with nh.run(passing()):
        assert nh.oversight.get_oversight() is None
        with nh.scope(oversight=hooks):
            with nh.scope():
                assert nh.oversight.get_oversight() is hooks
            with nh.scope(oversight=None):
                assert nh.oversight.get_oversight() is None
            assert nh.oversight.get_oversight() is hooks


async def test_10_what_has_no_inspecting_methods_is_no_oversight() -> None:
    async with nh.run(passing()):
        with pytest.raises(nh.NighthawkError, match="is no oversight"):
            nh.scope(oversight="strict")  # type: ignore[arg-type]


async def test_10_inherit_appends_fragments_and_replace_replaces_them() -> None:
    async with nh.run(passing()):
        with nh.scope(system_prompt_suffix_fragments=["s1"], user_prompt_suffix_fragments=["u1"]):
            with nh.scope(system_prompt_suffix_fragments=["s2"], user_prompt_suffix_fragments=["u2"]):
                assert nh.runtime.get_system_prompt_suffix_fragments() == ("s1", "s2")
                assert nh.runtime.get_user_prompt_suffix_fragments() == ("u1", "u2")
            with nh.scope(mode="replace", system_prompt_suffix_fragments=["s3", "s4"]):
                assert nh.runtime.get_system_prompt_suffix_fragments() == ("s3", "s4")
                assert nh.runtime.get_user_prompt_suffix_fragments() == ("u1",)
            with nh.scope(
                mode="replace", system_prompt_suffix_fragments=[], user_prompt_suffix_fragments=["u5"]
            ):
                assert nh.runtime.get_system_prompt_suffix_fragments() == ()
                assert nh.runtime.get_user_prompt_suffix_fragments() == ("u5",)
            assert nh.runtime.get_system_prompt_suffix_fragments() == ("s1",)


async def test_10_fragments_end_the_prompts_after_those_of_the_configuration() -> None:
    model = ScriptedModel(lambda request: model_response(tool_call("nh_outcome", kind="pass")))
    configuration = nh.StepExecutorConfiguration(
        system_prompt_suffix_fragments=("from configuration",), user_prompt_suffix_fragments=("base",)
    )
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    fragments: Any = {"system_prompt_suffix_fragments": ["a"], "user_prompt_suffix_fragments": ["b"]}
    async with nh.run(executor), nh.scope(**fragments):
        await act()
    (request,) = model.requests
    assert request.system_prompt.endswith("\n\nfrom configuration\n\na")
    (message,) = request.messages
    assert isinstance(message, nh.models.UserMessage)
    assert str(message.content[-1]).endswith("<<<NH:END_GLOBALS>>>\n\n\nbase\n\nb")


async def test_10_one_text_is_no_sequence_of_fragments() -> None:
    async with nh.run(passing()):
        with pytest.raises(nh.NighthawkError, match="sequence of texts"):
            nh.scope(system_prompt_suffix_fragments="Be brief.")


async def test_10_an_unknown_mode_is_refused() -> None:
    async with nh.run(passing()):
        with pytest.raises(nh.NighthawkError, match="'merge'"):
            nh.scope(mode="merge")  # type: ignore[arg-type]


async def test_10_implicit_references_are_merged_with_conflict_checks_and_replaced_on_request() -> None:
    first, second = object(), object()
    async with nh.run(passing()):
        with nh.scope(implicit_references={"first": first}):
            with nh.scope(implicit_references={"second": second, "first": first}):
                assert dict(nh.runtime.get_implicit_references()) == {"first": first, "second": second}
            with pytest.raises(nh.NighthawkError, match="'first' is already bound to another object"):
                nh.scope(implicit_references={"first": second})
            with nh.scope(mode="replace", implicit_references={"first": second}):
                assert dict(nh.runtime.get_implicit_references()) == {"first": second}
            with nh.scope(mode="replace", implicit_references={}):
                assert dict(nh.runtime.get_implicit_references()) == {}
            with nh.scope(mode="replace"):
                assert dict(nh.runtime.get_implicit_references()) == {"first": first}


@pytest.mark.parametrize("name", ["two words", "__dunder__", "1st", ""])
async def test_10_an_implicit_reference_needs_a_name_that_blocks_can_use(name: str) -> None:
    async with nh.run(passing()):
        with pytest.raises(nh.NighthawkError, match="no name a block can use"):
            nh.scope(implicit_references={name: 1})


async def test_10_implicit_references_can_be_evaluated_and_are_shown_but_locals_win() -> None:
    model = ScriptedModel(
        [model_response(tool_call("nh_outcome", kind="return", return_expression="helper() + text"))]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(implicit_references={"helper": lambda: "helped ", "text": "hidden"}):
            assert await act("local") == "helped local"
    globals_section = str(model.requests[0].messages[0]).partition("NH:GLOBALS")[2]
    assert "helper: ()" in globals_section
    assert "hidden" not in globals_section


async def test_10_a_mapping_or_list_given_to_scope_may_change_afterwards() -> None:
    fragments, references = ["a"], {"name": 1}
    async with nh.run(passing()):
        with nh.scope(system_prompt_suffix_fragments=fragments, implicit_references=references):
            fragments.append("b")
            references["other"] = 2
            assert nh.runtime.get_system_prompt_suffix_fragments() == ("a",)
            assert dict(nh.runtime.get_implicit_references()) == {"name": 1}


async def test_10_siblings_do_not_see_each_others_scopes() -> None:
    in_scope, seen_outside = anyio.Event(), anyio.Event()

    async def inside() -> None:
        with nh.scope(system_prompt_suffix_fragments=["inside"]):
            in_scope.set()
            await seen_outside.wait()

    async with nh.run(passing()), anyio.create_task_group() as task_group:
        task_group.start_soon(inside)
        await in_scope.wait()
        assert nh.runtime.get_system_prompt_suffix_fragments() == ()
        seen_outside.set()


# ---- identity and state of the step in progress


async def test_10_the_step_id_is_set_while_a_step_runs_only() -> None:
    seen: list[nh.ExecutionRef] = []

    def answer(call: StepCall) -> StepResponse:
        seen.append(nh.get_execution_ref())
        assert nh.get_current_step_context().step_id == call.step_id
        assert nh.get_current_step_context().execution_ref == nh.get_execution_ref()
        return pass_response()

    async with nh.run(CallbackExecutor(answer)):
        around = nh.get_execution_ref()
        await act()
        assert nh.get_execution_ref() == around
    (reference,) = seen
    line = act.__wrapped__.__code__.co_firstlineno + 3  # type: ignore[attr-defined]
    assert reference.step_id == f"{__name__}:{line}"
    assert (reference.run_id, reference.scope_id) == (around.run_id, around.scope_id)


async def test_10_a_scope_inside_a_step_keeps_the_step() -> None:
    def answer(call: StepCall) -> StepResponse:
        outer = nh.get_current_step_context()
        with nh.scope():
            assert nh.get_current_step_context() is outer
            assert nh.get_execution_ref().step_id == outer.step_id
        with nh.run(passing()), pytest.raises(nh.NighthawkError, match="No step is active"):
            nh.get_current_step_context()
        return pass_response()

    async with nh.run(CallbackExecutor(answer)):
        await act()


async def test_10_the_step_actor_gives_snapshots_and_ends_with_the_step() -> None:
    actors: list[nh.runtime.StepActor] = []

    async def answer(call: StepCall) -> StepResponse:
        actor = nh.get_current_step_actor()
        actors.append(actor)
        snapshot = await actor.snapshot()
        assert snapshot.locals == {"text": "text", "result": "untouched"}
        assert snapshot.stop_reason is None
        return pass_response()

    async with nh.run(CallbackExecutor(answer)):
        await act()
    (actor,) = actors
    with pytest.raises(nh.parallel.TaskEndedError, match="has ended"):
        await actor.snapshot()
    with pytest.raises(nh.parallel.TaskEndedError, match="has ended"):
        actor.steer("too late")
    with pytest.raises(nh.parallel.TaskEndedError, match="has ended"):
        actor.stop("too late")
    with pytest.raises(nh.errors.StepEndedError, match="has ended"):
        await actor.settle(actor.post_evaluate("text"))


# ---- usage


async def test_10_usage_is_metered_by_scope_and_run_and_outer_runs() -> None:
    _, executor = prompting()
    async with nh.run(executor) as outer:
        await act()
        with nh.scope():
            await act()
            assert nh.get_usage_meter().usage.requests == 1
            assert nh.get_usage_meter().steps == 1
        async with nh.run(executor) as inner:
            await act()
        assert nh.get_usage_meter() is outer.usage_meter
    assert inner.usage_meter.usage == nh.Usage(requests=1, input_tokens=10, output_tokens=5)
    assert outer.usage_meter.usage == nh.Usage(requests=3, input_tokens=30, output_tokens=15)
    assert dict(outer.usage_meter.usage_by_model) == {"scripted:model": outer.usage_meter.usage}
    assert outer.usage_meter.steps == 3


async def test_10_resources_of_a_run_entered_with_with_stay_while_any_step_uses_them() -> None:
    release, first_ended = anyio.Event(), anyio.Event()
    opened = 0

    async def answer(call: StepCall) -> StepResponse:
        nonlocal opened

        @asynccontextmanager
        async def connection() -> Any:
            nonlocal opened
            opened += 1
            yield
            opened -= 1

        async with shared_in_run("connection", connection):
            if call.step_locals["text"] == "slow":
                await first_ended.wait()
            else:
                await release.wait()
            return return_response(str(opened))

    results: dict[str, str] = {}

    async def one(text: str) -> None:
        results[text] = str(await act(text))
        first_ended.set()

    @nh.natural_function
    async def act(text: str) -> object:
        """natural
        Say how many connections are open for <text>.
        """

    with nh.run(CallbackExecutor(answer)):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(one, "slow")
            task_group.start_soon(one, "fast")
            await anyio.wait_all_tasks_blocked()
            release.set()
    assert results == {"fast": "1", "slow": "1"}
    assert opened == 0
