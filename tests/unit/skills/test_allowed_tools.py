"""`allowed-tools`: the calls that may be made while a skill is active."""

import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async import library
from nighthawk_async.skills.allowed_tools import fits_command, parse_allowed_tools
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating, executing

from .folders import made_skill, write_skill

pytestmark = pytest.mark.anyio


def look_up(topic: str) -> str:
    """Look up a topic."""
    return f"about {topic}"


def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


LOOK_UP, SEND = tool_call("look_up", topic="x"), tool_call("send", text="x")


def reading(name: str) -> nh.models.ToolCall:
    return tool_call("nh_skill", name=name)


def made(steps: ScriptedSteps) -> list[object]:
    """The value of each call, or the reason why it was refused."""
    return [_outcome(envelope) for envelope in steps.envelopes]


def outcomes_of(name: str, steps: ScriptedSteps) -> list[object]:
    """The same for the calls of one tool in all steps, each as its model saw it first."""
    return [
        _shown(result)
        for request in steps.model.requests
        for message in request.messages[-1:]
        if isinstance(message, nh.models.ToolResultsMessage)
        for result in message.results
        if result.name == name
    ]


def _shown(result: nh.models.ToolResult) -> object:
    text = str(result.content[0])  # a lone text is shown as it is
    return _outcome(json.loads(text)) if text.startswith("{") else text


def _outcome(envelope: Mapping[str, Any]) -> object:
    return envelope["value"] if envelope["error"] is None else envelope["error"]["message"]


def refused(name: str, skill: str) -> str:
    return f"{name} is not permitted (deny rule allowed-tools of the skill {skill!r})"


# ---- the text


@pytest.mark.parametrize(
    "text",
    [
        *("look_up", "Mailer.*", "shop.orders.*", "*", "nh_eval", "mcp__tracker__close", "Read Grep Glob"),
        *("Bash", "Bash(*)", "Bash(git:*)", "Bash(git *)", "Bash(npm run test)"),
        *("Bash(npx --no-install x:*) Read", "Write Edit MultiEdit WebFetch LS"),
    ],
)
def test_names_and_tools_of_other_hosts_are_understood(text: str) -> None:
    tools, faults = parse_allowed_tools(text)
    assert faults == []
    assert " ".join(each.text for each in tools) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Read,Write", "separated by spaces, not by commas: 'Read,Write'"),
        ("WebSearch", "'WebSearch' has no counterpart here; understood are names of tools"),
        ("Read(docs/**)", r"'Read(docs/**)' is not understood; understood are"),
        ("Bash()", "'Bash()' is not understood"),
        ("Bash(git * --force)", "is not understood"),
        ("Bash(git; rm:*)", "is not understood"),
        ("Bash(git", "'Bash(git' is not understood"),
        ("a-b", "'a-b' is not understood"),
        ("", "is empty"),
    ],
)
def test_other_patterns_are_refused_with_what_is_understood(text: str, problem: str) -> None:
    _, (fault, *_) = parse_allowed_tools(text)
    assert problem in fault


@pytest.mark.parametrize(
    ("command", "fits"),
    [
        ("git", True),
        ("git status -s", True),
        ("  git   log --format='%h'", True),
        ("gitk", False),
        ("sudo git", False),
        ("X=1 git", False),
        *(
            (f"git {rest}", False)
            for rest in ("; ls", "& ls", "| sh", "> x", "< x", "$(ls)", "`ls`", "a\nls", "\\")
        ),
        *((f"git {rest}", False) for rest in ("a\rls", "(ls)", "{a,b}")),
        (["git"], False),
        (None, False),
    ],
    ids=str,
)
def test_a_prefix_permits_one_simple_command(command: object, fits: bool) -> None:
    assert fits_command("git", True, command) is fits


def test_a_whole_command_permits_nothing_more() -> None:
    assert fits_command("npm run test", False, "npm  run test")
    assert not fits_command("npm run test", False, "npm run test --force")


# ---- named skills


async def test_a_named_skill_narrows_the_calls_of_its_step_only(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="look_up nh_eval")
    steps = ScriptedSteps(
        (LOOK_UP, SEND, evaluating("send('y')"), evaluating("len('abc')")), PASS, SEND, PASS
    )
    async with nh.run(steps.executor, tools=[look_up, send]):
        await nh.step("Follow <guide>.", guide=skill, send=send)
        assert made(steps) == ["about x", refused("send", "ask"), refused("send", "ask"), 3]
        await nh.step("Work.")
        assert made(steps) == ["sent x"]
    assert "only these calls are permitted: look_up nh_eval" in steps.user_prompt


async def test_permissions_that_are_active_apply_as_well(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="'*'")
    steps = ScriptedSteps((LOOK_UP, SEND), PASS)
    async with nh.run(
        steps.executor, tools=[look_up, send], permissions=nh.permissions(deny="send", default="allow")
    ):
        await nh.step("Follow <guide>.", guide=skill)
    assert made(steps) == ["about x", "send is not permitted (deny rule send)"]


async def test_of_several_skills_each_must_allow_a_call(tmp_path: Path) -> None:
    one = made_skill(tmp_path, "one", allowed_tools="look_up send")
    two = made_skill(tmp_path, "two", allowed_tools="look_up")
    free = made_skill(tmp_path, "free")
    steps = ScriptedSteps((LOOK_UP, SEND), PASS)
    async with nh.run(steps.executor, tools=[look_up, send]):
        await nh.step("Follow <one>, <two> and <free>.", one=one, two=two, free=free)
    assert made(steps) == ["about x", refused("send", "two")]


async def test_steps_and_runs_within_the_step_are_narrowed_too(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="inner outer_run")
    steps = ScriptedSteps(
        evaluating("inner()"), LOOK_UP, PASS, evaluating("outer_run()"), LOOK_UP, PASS, PASS
    )

    @nh.natural_function
    async def inner() -> None:
        """natural
        Look up.
        """

    async def outer_run() -> None:
        async with nh.run(steps.executor):
            await inner()

    async with nh.run(steps.executor, tools=[look_up]):
        await nh.step("Follow <guide>.", guide=skill, inner=inner, outer_run=outer_run)
    assert outcomes_of("look_up", steps) == [refused("look_up", "ask")] * 2


async def test_a_handed_over_function_is_checked(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="look_up")
    steps = ScriptedSteps(
        (evaluating("list(map(send, ['x']))"), evaluating("list(map(look_up, ['x']))")), PASS
    )
    async with nh.run(steps.executor):
        await nh.step("Follow <guide>.", guide=skill, send=send, look_up=look_up)
    first, second = made(steps)
    assert "not permitted to be handed to something that calls it" in str(first)
    assert second == ["about x"]


# ---- skills that a model reads


async def test_a_skill_narrows_from_the_call_that_reads_it_until_the_step_ends(tmp_path: Path) -> None:
    write_skill(tmp_path, "ask", allowed_tools="look_up")
    write_skill(tmp_path, "free")
    steps = ScriptedSteps(
        (SEND, reading("free"), SEND, reading("ask"), SEND, LOOK_UP, reading("free")), SEND, PASS, SEND, PASS
    )
    async with nh.run(steps.executor, tools=[look_up, send], skills=nh.skills.load(tmp_path)):
        await nh.step("Work.")
        denied = refused("send", "ask")
        values = made(steps)
        assert [*values[:3], *values[4:]] == [
            "sent x",
            "Do it.",
            "sent x",
            denied,
            "about x",
            "Do it.",
            denied,
        ]
        assert values[3] == "Do it.\n\nWhile this skill is active, only these calls are permitted: look_up"
        await nh.step("Work.")
        assert made(steps) == ["sent x"]


async def test_a_skill_that_the_calling_step_has_read_narrows_the_steps_that_it_calls_later(
    tmp_path: Path,
) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="inner")

    @nh.natural_function
    async def inner() -> None:
        """natural
        Send.
        """

    steps = ScriptedSteps(
        evaluating("inner()"), SEND, PASS, (reading("ask"), evaluating("inner()")), SEND, PASS, PASS
    )
    async with nh.run(steps.executor, tools=[send], skills=skill):
        await nh.step("Call <inner>.", inner=inner)
    assert outcomes_of("send", steps) == ["sent x", refused("send", "ask")]


async def test_reading_a_file_counts_as_reading_the_skill(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="look_up", files={"a.md": "one"})
    steps = ScriptedSteps((tool_call("nh_skill", name="ask", file="a.md"), SEND), PASS)
    async with nh.run(steps.executor, tools=[send], skills=skill):
        await nh.step("Work.")
    assert made(steps) == ["one", refused("send", "ask")]


async def test_a_call_that_reads_nothing_narrows_nothing(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="look_up")
    steps = ScriptedSteps((reading("asks"), tool_call("nh_skill", name="ask", file="x"), SEND), PASS)
    async with nh.run(steps.executor, tools=[send], skills=skill):
        await nh.step("Work.")
    assert made(steps)[2] == "sent x"


# ---- the tools of other hosts


async def test_tools_of_other_hosts_are_those_of_a_workspace(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="Read Bash(echo:*)")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("one\n")
    workspace = library.Workspace(tmp_path / "files", writable=True)
    steps = ScriptedSteps(
        (
            evaluating("workspace.read('a.txt')"),
            evaluating("workspace.create('b.txt', 'x')"),
            evaluating("(await workspace.shell('echo hi')).output"),
            evaluating("await workspace.shell('echo hi; rm a.txt')"),
            evaluating("await workspace.shell('rm a.txt')"),
        ),
        PASS,
    )
    async with nh.run(steps.executor):
        await nh.step("Follow <guide> in <workspace>.", guide=skill, workspace=workspace)
    read, created, echoed, *others = made(steps)
    assert read == "one\n"
    assert "hi" in str(echoed)
    assert created == refused("Workspace.create", "ask")
    assert others == [refused("Workspace.shell", "ask")] * 2
    assert sorted(each.name for each in (tmp_path / "files").iterdir()) == ["a.txt"]


# ---- steps of all kinds


async def test_steps_at_the_same_time_do_not_narrow_each_other(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="look_up")
    seen: list[tuple[bool, object]] = []

    def answer(request: nh.models.ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        reads = "The first step" in str(request.messages[0])
        if not isinstance(last, nh.models.ToolResultsMessage):
            return model_response(*((reading("ask"),) if reads else ()), SEND)
        seen.append((reads, _shown(last.results[-1])))
        return model_response(PASS)

    async with nh.run(ScriptedModel(answer), tools=[send], skills=skill) as run:
        for name in ("first", "second") * 3:
            run.task_group.start_soon(partial(nh.step, f"The {name} step."))
    assert sorted(seen, key=str) == [(False, "sent x")] * 3 + [(True, refused("send", "ask"))] * 3


async def test_synchronous_functions_and_generators_are_narrowed(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="look_up")

    @nh.natural_function
    def function() -> None:
        """natural
        Follow <ask>.
        """

    @nh.natural_function
    async def generator() -> AsyncIterator[int]:
        yield 1
        """natural
        Follow <ask>.
        """
        yield 2

    steps = ScriptedSteps((SEND, LOOK_UP), PASS, (SEND, LOOK_UP), PASS)
    async with nh.run(steps.executor, tools=[look_up, send], skills=skill):
        await nh.blocking(function)()
        assert [each async for each in generator()] == [1, 2]
    assert outcomes_of("send", steps) == [refused("send", "ask")] * 2
    assert outcomes_of("look_up", steps) == ["about x"] * 2


async def test_code_that_was_made_before_is_narrowed_when_it_runs(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "ask", allowed_tools="later")
    steps = ScriptedSteps(
        (executing("def later():\n    return send('x')"), reading("ask"), evaluating("later()")), PASS
    )
    async with nh.run(steps.executor, skills=skill):
        await nh.step("Use <send>.", send=send)
    assert refused("send", "ask") in str(made(steps)[2])
