"""Skills of a run, a scope, a function or a step: their list in the system prompt, and `nh_skill`."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.models import ModelCapabilities
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.specification.scripted_steps import PASS, ScriptedSteps

from .folders import made_skill, write_skill

pytestmark = pytest.mark.anyio

PROGRAM = """
import sys

import anyio
import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call


@nh.natural_function
async def work() -> None:
    '''natural
    Work.
    '''


async def main() -> None:
    async with nh.run(ScriptedModel([model_response(tool_call("nh_outcome", kind="pass"))])):
        await work()


anyio.run(main)
print([name for name in sys.modules if "nighthawk_async.skills" in name or "skill_tool" in name])
"""

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@nh.natural_function
async def work() -> object:
    """natural
    Work.
    """


def reading(name: str, **arguments: object) -> nh.models.ToolCall:
    return tool_call("nh_skill", name=name, **arguments)


def names_in(prompt: str) -> list[str]:
    """The names in the list of skills in a system prompt."""
    _, heading, listed = prompt.partition("Skills are instructions")
    lines = listed.splitlines() if heading else []
    return [line[2:].partition(":")[0] for line in lines if line.startswith("- ")]


def offered(steps: ScriptedSteps) -> list[list[str]]:
    """The names of the listed skills in each request; those of a step that cannot read them are a failure."""
    for request in steps.model.requests:
        has_tool = "nh_skill" in [tool.name for tool in request.tools]
        assert has_tool == bool(names_in(request.system_prompt))
    return [names_in(request.system_prompt) for request in steps.model.requests]


@pytest.fixture
def skills(tmp_path: Path) -> nh.skills.Skills:
    write_skill(tmp_path, "tidy-up", description="'Tidies:  up.'", files={"a.md": "one\n", "b/c.png": PNG})
    write_skill(tmp_path, "ask", description="Asks.", body="# How\n\nAsk.")
    return nh.skills.load(tmp_path)


# ---- the list


async def test_names_and_descriptions_are_at_the_end_of_the_system_prompt(skills: nh.skills.Skills) -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor, skills=skills):
        with nh.scope(system_prompt_suffix_fragments=["The end."]):
            await work()
    (request,) = steps.model.requests
    assert request.system_prompt.endswith(
        "with nh_skill, and follow it:\n- ask: Asks.\n- tidy-up: Tidies: up.\n\nThe end."
    )
    assert "tidy" not in steps.user_prompt


async def test_the_bytes_of_prompts_are_the_same_in_every_run(tmp_path: Path) -> None:
    names = ["b2", "a", "c-3"]
    for name in names:
        write_skill(tmp_path / "one", name)
        write_skill(tmp_path / "other" / name, name)
    one = nh.skills.load(tmp_path / "one")
    other = nh.skills.load(*(tmp_path / "other" / name for name in names))
    requests: list[nh.models.ModelRequest] = []
    for skills in (one, other, list(reversed(list(other.values())))):
        steps = ScriptedSteps(PASS)
        async with nh.run(steps.executor, skills=skills):
            await work()
        requests += steps.model.requests
    first = requests[0]
    assert all((each.system_prompt, each.tools) == (first.system_prompt, first.tools) for each in requests)


async def test_without_skills_nothing_is_added(skills: nh.skills.Skills) -> None:
    prompts: list[object] = []
    given: list[Any] = [{}, {"skills": []}, {"skills": skills.only()}]
    for arguments in given:
        steps = ScriptedSteps(PASS)
        async with nh.run(steps.executor, **arguments):
            await work()
        prompts.append(
            (steps.model.requests[0].system_prompt, steps.user_prompt, steps.model.requests[0].tools)
        )
    assert prompts[1:] == prompts[:1] * 2
    assert "kill" not in str(prompts)


def test_a_program_without_skills_imports_nothing_of_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


async def test_skills_of_runs_scopes_functions_and_steps_add_up(tmp_path: Path) -> None:
    one, two, three = (made_skill(tmp_path, name) for name in ("one", "two", "three"))

    @nh.natural_function(skills=three)
    async def with_its_own() -> None:
        """natural
        Work.
        """

    steps = ScriptedSteps(*[PASS] * 8)
    async with nh.run(steps.executor, skills=one):
        await work()
        with nh.scope(skills=[two, one]):
            await work()
            await with_its_own()
            await nh.step("Work.", skills={"x": three})
            with nh.scope(skills=three, mode="replace"):
                await work()
            with nh.scope(skills=[], mode="replace"):
                await work()
            with nh.scope(tools=[], mode="replace"):
                await work()
            async with nh.run(steps.executor):
                await work()
    assert offered(steps) == [
        *(["one"], ["one", "two"], ["one", "three", "two"], ["one", "three", "two"]),
        *(["three"], [], ["one", "two"], []),
    ]


async def test_synchronous_functions_and_steps_have_skills(skills: nh.skills.Skills) -> None:
    @nh.natural_function(skills=skills)
    def function() -> None:
        """natural
        Work.
        """

    steps = ScriptedSteps(reading("ask"), PASS, PASS)
    async with nh.run(steps.executor):
        await nh.blocking(function)()
        await nh.blocking(lambda: nh.step_sync("Work.", skills=skills["ask"]))()
    assert offered(steps) == [["ask", "tidy-up"], ["ask", "tidy-up"], ["ask"]]


def test_the_middleware_takes_skills(skills: nh.skills.Skills) -> None:
    async def application(scope: object, receive: object, send: object) -> None: ...

    NighthawkMiddleware(application, model=ScriptedModel([]), skills=skills)
    with pytest.raises(nh.NighthawkError, match="skills must be"):
        NighthawkMiddleware(application, model=ScriptedModel([]), skills="skills/")  # type: ignore[arg-type]


async def test_two_skills_of_one_name_cannot_be_offered_together(tmp_path: Path) -> None:
    one, other = made_skill(tmp_path / "a", "one"), made_skill(tmp_path / "b", "one", body="Otherwise.")
    async with nh.run(ScriptedSteps().executor, skills=one):
        with pytest.raises(nh.ConfigurationError, match=r"named 'one': .*a/one and .*b/one"):
            nh.scope(skills=other)
        nh.scope(skills=other, mode="replace")


@pytest.mark.parametrize(
    "value",
    ["skills/", 3, [3], {"a": "b"}, [None]],
    ids=["a path", "a number", "numbers", "texts", "a list of None"],
)
def test_what_is_no_skill_is_refused(value: Any) -> None:
    with pytest.raises(nh.NighthawkError, match=r"must be what nighthawk_async\.skills\.load returns"):
        nh.run(ScriptedSteps().executor, skills=value)


async def test_too_long_a_list_is_an_error_with_sizes_and_nothing_is_sent(tmp_path: Path) -> None:
    for number in range(30):
        write_skill(tmp_path, f"skill-{number}", description=f"{'word ' * (100 + number)}")
    skills = nh.skills.load(tmp_path)
    steps = ScriptedSteps(PASS, PASS)
    async with nh.run(steps.executor, skills=skills):
        with pytest.raises(
            nh.ConfigurationError,
            match=r"30 skills have 3,\d{3} tokens; skills_max_tokens .* is 2,000.* skill-29 \(13\d\), s",
        ):
            await work()
        assert steps.model.requests == []
    larger = ScriptedSteps(PASS, context_limits=nh.StepContextLimits(skills_max_tokens=5_000))
    async with nh.run(larger.executor, skills=skills):
        await work()
    assert len(offered(larger)[0]) == 30


# ---- reading


async def test_a_model_reads_a_skill_and_its_files(skills: nh.skills.Skills) -> None:
    steps = ScriptedSteps(
        (
            reading("ask"),
            reading("tidy-up"),
            reading("tidy-up", file="a.md"),
            reading("tidy-up", file="./a.md"),
        ),
        reading("ask", file="SKILL.md"),
        PASS,
    )
    async with nh.run(steps.executor, skills=skills):
        await work()
    values = [each["value"] for each in steps.envelopes]
    assert values[0] == values[4] == "# How\n\nAsk."
    assert values[1] == "Do it.\n\nFiles of the skill tidy-up:\n- a.md\n- b/c.png"
    assert values[2] == values[3] == "one\n"


@pytest.mark.parametrize(
    ("arguments", "kind", "problem"),
    [
        ({"name": "../ask"}, "resolution", "there is no skill named '../ask'"),
        ({"name": "tidy_up/../ask"}, "resolution", "Skills: ask, tidy-up."),
        ({"name": ""}, "resolution", "there is no skill"),
        ({"name": "ask", "file": "a.md"}, "resolution", "It has no files."),
        ({"name": "tidy-up", "file": "../ask/SKILL.md"}, "resolution", "Files: a.md, b/c.png."),
        ({"name": "tidy-up", "file": "/etc/passwd"}, "resolution", "has no file '/etc/passwd'"),
        ({"name": "tidy-up", "file": ""}, "resolution", "has no file ''"),
        ({"name": "tidy-up", "file": "a.md\0"}, "resolution", "has no file"),
        (
            {"name": "tidy-up", "file": "a.md", "offset": 4},
            "invalid_input",
            "beyond the end of the 4 characters",
        ),
        ({"name": "tidy-up", "offset": -1}, "invalid_input", "the arguments do not fit"),
        ({"name": "tidy-up", "path": "x"}, "invalid_input", "the arguments do not fit"),
        ({}, "invalid_input", "the arguments do not fit"),
        ({"name": "tidy-up", "file": "b/c.png"}, "invalid_input", "this model takes no images"),
    ],
    ids=str,
)
async def test_what_cannot_be_read_is_an_error_that_says_what_there_is(
    skills: nh.skills.Skills, arguments: Mapping[str, Any], kind: str, problem: str
) -> None:
    steps = ScriptedSteps(tool_call("nh_skill", **arguments), PASS)
    async with nh.run(steps.executor, skills=skills):
        await work()
    (envelope,) = steps.envelopes
    assert envelope["error"]["kind"] == kind
    assert problem in f"{envelope['error']['message']} {envelope['error']['guidance']}"


async def test_a_file_that_was_removed_is_an_error_for_the_model(skills: nh.skills.Skills) -> None:
    (skills["tidy-up"].folder / "a.md").unlink()
    steps = ScriptedSteps(reading("tidy-up", file="a.md"), PASS)
    async with nh.run(steps.executor, skills=skills):
        await work()
    (envelope,) = steps.envelopes
    assert envelope["error"]["kind"] == "execution"
    assert "cannot be read" in envelope["error"]["message"]


async def test_a_model_that_takes_images_gets_an_image(skills: nh.skills.Skills) -> None:
    model = ScriptedModel(
        [model_response(reading("tidy-up", file="b/c.png")), model_response(PASS)],
        capabilities=ModelCapabilities(images=True),
    )
    async with nh.run(model, skills=skills):
        await work()
    message = model.requests[-1].messages[-1]
    assert isinstance(message, nh.models.ToolResultsMessage)
    assert message.results[0].content == (
        nh.BinaryContent(data=PNG, media_type="image/png", identifier="b/c.png"),
    )


async def test_long_texts_come_in_parts_that_are_shown_whole(tmp_path: Path) -> None:
    line = 'λ " word ' * 10
    lines = [f"{number}: {line}" for number in range(300)]
    skill = made_skill(tmp_path, "long", body="\n".join(lines), files={"one-line.txt": "abc\\" * 3_000})
    limits = nh.StepContextLimits(tool_result_max_tokens=1_000)
    for file, whole in ((None, skill.text), ("one-line.txt", skill.read("one-line.txt"))):
        text = ""
        offset: int | None = 0
        while offset is not None:
            steps = ScriptedSteps(reading("long", file=file, offset=offset), PASS, context_limits=limits)
            async with nh.run(steps.executor, skills=skill):
                await work()
            (value,) = (each["value"] for each in steps.envelopes)
            text += value if isinstance(value, str) else value["text"]
            offset = None if isinstance(value, str) else value["next_offset"]
            assert offset is None or offset == len(text)
        assert text == whole


async def test_a_program_that_names_the_tool_needs_skills() -> None:
    async with nh.run(ScriptedSteps(PASS).executor):
        with pytest.raises(nh.ConfigurationError, match=r"'nh_skill', .*offer skills"):
            await nh.step("Use the tool nh_skill.")


def test_the_name_of_the_tool_is_taken() -> None:
    with pytest.raises(nh.ToolRegistrationError, match="'nh_skill' is the name of a provided tool"):
        nh.tool(lambda: None, name="nh_skill")  # type: ignore[call-overload]


async def test_the_direct_transport_has_no_list(skills: nh.skills.Skills) -> None:
    model = ScriptedModel([model_response(text='{"result": {"kind": "pass"}}')])
    executor = nh.AgentStepExecutor.from_model(
        model, configuration=nh.StepExecutorConfiguration(outcome_transport="direct")
    )
    async with nh.run(executor, skills=skills):
        await nh.step("Work.")
    assert "kill" not in model.requests[0].system_prompt


async def test_skills_can_be_read_where_permissions_deny_everything(skills: nh.skills.Skills) -> None:
    steps = ScriptedSteps(reading("ask"), PASS)
    async with nh.run(steps.executor, skills=skills, permissions=nh.permissions(default="deny")):
        await work()
    assert steps.envelopes[0]["error"] is None


async def test_a_later_life_of_a_durable_run_reads_skills_again_and_asks_no_model(
    skills: nh.skills.Skills, tmp_path: Path
) -> None:
    prompts: list[str] = []
    for turns in (((reading("tidy-up", file="a.md"), reading("ask")), PASS), ()):
        steps = ScriptedSteps(*turns)
        with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as store:
            async with nh.run(steps.executor, journal=store, run_id="one", skills=skills):
                await nh.step("Follow <tidy_up>.")
        prompts += [str(request.messages) for request in steps.model.requests]
    assert len(prompts) == 2
