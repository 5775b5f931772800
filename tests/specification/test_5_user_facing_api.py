"""Section 5: the decorator, the configuration, the supporting types, and the accessors."""

import inspect
from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, return_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating

pytestmark = pytest.mark.anyio


@nh.natural_function
async def greet(name: str, *, loud: bool = False) -> str:
    """natural
    Greet <name>.
    """
    return name


# ---- 5.1 the decorator


async def test_5_1_blocks_are_executed_when_the_function_is_called() -> None:
    executor = ScriptedExecutor([return_response("f'Hello {name}'")])
    async with nh.run(executor):
        coroutine = greet("Ann")
        assert executor.calls == []
        assert await coroutine == "Hello Ann"


def test_5_1_compilation_happens_at_decoration() -> None:
    with pytest.raises(nh.NaturalParseError, match="malformed"):

        @nh.natural_function
        def broken() -> None:
            """natural
            Set <:not.simple>.
            """


def test_5_1_the_source_must_be_available() -> None:
    namespace: dict[str, Any] = {}
    code = compile('async def hidden():\n    """natural\n    Do it.\n    """\n', "<nowhere>", "exec")
    exec(code, namespace)
    with pytest.raises(nh.NaturalParseError, match=r"source .* is not available"):
        nh.natural_function(namespace["hidden"])


@pytest.mark.parametrize("thing", [len, object(), 5, "natural\n"])
def test_5_1_only_python_functions_can_be_natural(thing: Any) -> None:
    with pytest.raises(nh.NaturalParseError, match="needs a Python function"):
        nh.natural_function(thing)


def test_5_1_the_function_keeps_its_signature_and_names() -> None:
    assert str(inspect.signature(greet)) == "(name: str, *, loud: bool = False) -> str"
    assert greet.__name__ == greet.__qualname__ == "greet"
    assert greet.__module__ == __name__
    assert inspect.iscoroutinefunction(greet)
    assert (greet.__doc__ or "").startswith("natural\n")
    assert inspect.isfunction(greet.__wrapped__)  # type: ignore[attr-defined]


async def test_5_1_a_step_outside_a_run_is_an_error() -> None:
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        await greet("Ann")


# ---- 5.2 the configuration


def test_5_2_the_defaults_are_those_of_the_specification() -> None:
    configuration = nh.StepExecutorConfiguration()
    assert configuration.model == "openai-responses:gpt-5.4-nano"
    assert configuration.model_settings == {}
    assert configuration.tokenizer_encoding is None
    assert configuration.json_renderer_style == "default"
    assert configuration.system_prompt_suffix_fragments == ()
    assert configuration.user_prompt_suffix_fragments == ()
    assert isinstance(configuration.prompts, nh.StepPromptTemplates)
    assert isinstance(configuration.context_limits, nh.StepContextLimits)


def test_5_2_model_settings_may_be_a_pydantic_model() -> None:
    class Settings(BaseModel):
        temperature: float = 1.0
        seed: int | None = None

    configuration = nh.StepExecutorConfiguration(model_settings=Settings(temperature=0.5))  # type: ignore[arg-type]
    assert configuration.model_settings == {"temperature": 0.5}
    assert nh.StepExecutorConfiguration(model_settings=None).model_settings == {}  # type: ignore[arg-type]


async def test_5_2_model_settings_are_forwarded_to_the_model() -> None:
    steps = ScriptedSteps(PASS, model_settings={"temperature": 0.5})
    async with nh.run(steps.executor):
        await greet("Ann")
    assert steps.model.requests[0].settings == {"temperature": 0.5}


async def test_5_2_prompt_templates_are_used() -> None:
    templates = nh.StepPromptTemplates(
        step_system_prompt_template="SYSTEM", step_user_prompt_template="[$program|$locals|$globals]"
    )
    steps = ScriptedSteps(PASS, prompts=templates)
    async with nh.run(steps.executor):
        await greet("Ann")
    assert steps.model.requests[0].system_prompt.strip() == "SYSTEM"
    assert steps.user_prompt.strip().startswith('[Greet <name>.\n|loud: bool = false\nname: str = "Ann"|')


async def test_5_2_baseline_suffix_fragments_come_before_those_of_scopes() -> None:
    steps = ScriptedSteps(
        PASS, system_prompt_suffix_fragments=("BASE S",), user_prompt_suffix_fragments=("BASE U",)
    )
    async with nh.run(steps.executor):
        with nh.scope(system_prompt_suffix_fragments=["SCOPE S"], user_prompt_suffix_fragments=["SCOPE U"]):
            await greet("Ann")
    system = steps.model.requests[0].system_prompt
    assert 0 < system.index("BASE S") < system.index("SCOPE S")
    assert 0 < steps.user_prompt.index("BASE U") < steps.user_prompt.index("SCOPE U")


@pytest.mark.parametrize("style", ["strict", "default", "detailed"])
async def test_5_2_the_renderer_style_is_used_in_prompts_and_results(style: Any) -> None:
    limits = nh.StepContextLimits(value_max_tokens=30, tool_result_max_tokens=30)
    steps = ScriptedSteps(
        evaluating("list(range(1000))"), PASS, json_renderer_style=style, context_limits=limits
    )

    @nh.natural_function
    async def look(items: list[int]) -> None:
        """natural
        Look at <items>.
        """

    async with nh.run(steps.executor):
        await look(list(range(1000)))
    result = str(steps.results[0].content[0])
    for text in (steps.user_prompt, result):
        assert ("…" in text) == (style == "default")
        assert ("// " in text or "/*" in text) == (style == "detailed")


@pytest.mark.parametrize("setting", [{"modle": "x:y"}, {"json_renderer_style": "loose"}, {"max_turns": 0}])
def test_5_2_unknown_or_wrong_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        nh.StepExecutorConfiguration(**setting)


# ---- 5.3 supporting types


def test_5_3_limits_have_the_fields_of_the_specification() -> None:
    assert set(nh.StepContextLimits.model_fields) == {
        "locals_max_tokens",
        "locals_max_items",
        "globals_max_tokens",
        "globals_max_items",
        "value_max_tokens",
        "object_max_methods",
        "object_max_fields",
        "object_field_value_max_tokens",
        "tool_result_max_tokens",
    } | {"types_max_tokens", "visible_names", "skills_max_tokens"}  # additions of ours


def test_5_3_prompt_templates_have_the_fields_of_the_specification() -> None:
    assert set(nh.StepPromptTemplates.model_fields) == {
        "step_system_prompt_template",
        "step_user_prompt_template",
    }


def test_5_3_jsonable_value_is_what_json_can_hold() -> None:
    assert {getattr(each, "__origin__", each) for each in get_args(nh.JsonableValue)} == {
        dict,
        list,
        str,
        int,
        float,
        bool,
        type(None),
    }


def test_5_3_an_execution_ref_is_frozen() -> None:
    reference: Any = nh.ExecutionRef(run_id="r", scope_id="s")
    assert reference.step_id is None
    with pytest.raises(FrozenInstanceError):
        reference.step_id = "x"


# ---- 5.4 accessors


@pytest.mark.parametrize(
    "accessor",
    [nh.get_current_step_context, nh.get_current_step_actor],
)
async def test_5_4_accessors_of_the_step_raise_when_no_step_is_active(accessor: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="No step is active"):
        accessor()
    async with nh.run(ScriptedExecutor([pass_response()])):
        with pytest.raises(nh.NighthawkError, match="No step is active"):
            accessor()
        await greet("Ann")
        with pytest.raises(nh.NighthawkError, match="No step is active"):
            accessor()


async def test_5_4_the_step_context_is_the_one_of_the_executing_block() -> None:
    seen: list[tuple[str, object]] = []

    def look() -> None:
        context = nh.get_current_step_context()
        seen.append((context.step_id, context.step_locals["name"]))

    async def look_later() -> None:
        look()

    steps = ScriptedSteps((evaluating("look()"), evaluating("look_later()"), PASS))
    references = {"look": look, "look_later": look_later}
    async with nh.run(steps.executor), nh.scope(implicit_references=references):
        await greet("Ann")
    assert len(set(seen)) == 1
    assert seen[0][1] == "Ann"
