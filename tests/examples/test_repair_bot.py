"""The example `repair_bot`: rounds with a scripted model that plays all agents."""

import random
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from examples.repair_bot.__main__ import BROKEN, TESTS, main, read_arguments
from examples.repair_bot.repair import Limits, Report, repair
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("git") is None, reason="the bot compares with git"),
]

PASS = tool_call("nh_outcome", kind="pass")
CART = {"files": ["shop/cart.py"], "goal": "add to the quantity"}
DISCOUNTS = {"files": ["shop/discounts.py"], "goal": "begin at 100.00"}
ADDS = (
    "workspace.edit('shop/cart.py', 'self.quantities[name] = quantity', "
    "'self.quantities[name] = self.quantities.get(name, 0) + quantity')"
)
BEGINS = "workspace.edit('shop/discounts.py', 'subtotal > FROM', 'subtotal >= FROM')"
ROLES = {
    "plan": "The tests of <workspace> fail",
    "work": "Do <task> in <workspace>",
    "review": "<change> is in <workspace> already",
    "investigate": "Find the answer to <question>",
}


@dataclass(frozen=True)
class Turn:
    """One request, as its part of the model sees it.

    Args:
        prompt: The first message.
        number: The number of the request in its step, from 1.
        seen: The results of the last calls.
        round: The number of steps of that role so far, from 1.
    """

    prompt: str
    number: int
    seen: str
    round: int


Part = Callable[[Turn], ModelResponse]


def text_of(message: nh.models.Message) -> str:
    match message:
        case nh.models.UserMessage():
            return "".join(map(str, message.content))
        case nh.models.ToolResultsMessage():
            return "".join(str(part) for result in message.results for part in result.content)
        case nh.models.AssistantMessage():
            return message.text


class Cast:
    """A model that plays each agent by a function of its own."""

    def __init__(self, **parts: Part) -> None:
        self._parts = parts
        self.turns: list[tuple[str, Turn]] = []
        self.failures: list[AssertionError] = []
        self.model = ScriptedModel(self._answer)

    def seen_by(self, role: str) -> list[Turn]:
        """The turns of a role."""
        return [turn for of, turn in self.turns if of == role]

    def _answer(self, request: nh.models.ModelRequest) -> ModelResponse:
        prompt = text_of(request.messages[0])
        program = prompt.partition("LOCALS")[0]
        (role,) = (role for role, words in ROLES.items() if words in program)
        number = 1 + len(request.messages) // 2
        begun = sum(turn.number == 1 for turn in self.seen_by(role)) + (number == 1)
        turn = Turn(prompt, number, text_of(request.messages[-1]) if number > 1 else "", begun)
        self.turns.append((role, turn))
        try:
            return self._parts[role](turn)
        except AssertionError as error:  # a failing worker is no failure of the bot
            self.failures.append(error)
            raise


def sets(name: str, value: object) -> ModelResponse:
    return model_response(tool_call("nh_assign", target_path=name, value=value), PASS)


def executes(statements: str) -> ModelResponse:
    return model_response(tool_call("nh_exec", statements=statements))


def evaluates(expression: str) -> ModelResponse:
    return model_response(tool_call("nh_eval", expression=expression))


def plans(*tasks: object) -> Part:
    return lambda turn: sets("tasks", tasks)


def accepts(turn: Turn) -> ModelResponse:
    return sets("verdict", {"is_accepted": True})


def fixes(turn: Turn) -> ModelResponse:
    """Do the task in one edit."""
    if turn.number > 1:
        return sets("cause", "fixed")
    return executes(ADDS if "shop/cart.py" in turn.prompt.partition("LOCALS")[2] else BEGINS)


CHECKS = """
import shop.test_cart as tests
failed = 0
for name in [name for name in vars(tests) if name.startswith("test_")]:
    try:
        vars(tests)[name]()
    except AssertionError:
        failed += 1
print(failed, "failed")
raise SystemExit(failed > 0)
"""
QUICK = f"{shlex.quote(sys.executable)} -S -c {shlex.quote(CHECKS)}"
"""The same tests without pytest, which takes longer to start than they do."""


async def repaired(cast: Cast, *, tests: str = QUICK, **limits: Any) -> Report:
    report = await repair(BROKEN, cast.model, tests=tests, limits=Limits(**limits), sandbox="auto")
    for failure in cast.failures:
        raise failure
    return report


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(autouse=True)
def _the_repository_stays_as_it_was() -> Iterator[None]:
    before = files_of(BROKEN)
    yield
    assert files_of(BROKEN) == before


async def passes_with(diff: str, folder: Path) -> bool:
    """Whether the tests of the repository pass once a diff is applied to it."""
    shutil.copytree(BROKEN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    await anyio.run_process(["git", "apply", "-"], cwd=folder, input=diff.encode())
    return (await anyio.run_process(QUICK, cwd=folder, check=False)).returncode == 0


# ---- several rounds


WRONG = """*** Begin Patch
*** Update File: shop/cart.py
@@
         self.prices[name] = price
-        self.quantities[name] = amount
+        self.quantities[name] = self.quantities.get(name, 0) + quantity
*** End Patch"""
HASTY = "workspace.edit('shop/discounts.py', 'subtotal > FROM', 'subtotal >= 10_000')"
CAREFUL = "workspace.edit('shop/discounts.py', 'subtotal >= 10_000', 'subtotal >= FROM')"


async def test_a_worker_corrects_its_patch_and_a_reviewer_rejects_once(tmp_path: Path) -> None:
    def plan(turn: Turn) -> ModelResponse:
        if turn.round == 1:
            return sets("tasks", [CART, DISCOUNTS])
        assert "the reviewer says: FROM is not used any more" in turn.prompt
        return sets("tasks", [{"files": ["shop/discounts.py"], "goal": "use FROM"}])

    def work(turn: Turn) -> ModelResponse:
        if "add to the quantity" in turn.prompt:
            if turn.number == 1:
                return evaluates(f"workspace.patch({WRONG!r})")
            if turn.number == 2:
                assert "the patch expects '        self.quantities[name] = amount'" in turn.seen
                return evaluates(f"workspace.patch({WRONG.replace('amount', 'quantity')!r})")
            return sets("cause", "quantities were replaced")
        if turn.number == 1:
            return executes(CAREFUL if "use FROM" in turn.prompt else HASTY)
        return sets("cause", "the limit itself had no discount")

    def review(turn: Turn) -> ModelResponse:
        if turn.number == 1 and turn.round == 1:
            return evaluates("await investigate(workspace, 'who uses FROM?')")
        if turn.round == 1:
            assert "nobody" in turn.seen
            return sets("verdict", {"is_accepted": False, "remarks": ["FROM is not used any more"]})
        assert "+    return subtotal // 10 if subtotal >= FROM else 0" in turn.prompt
        return accepts(turn)

    def investigate(turn: Turn) -> ModelResponse:
        assert "who uses FROM?" in turn.prompt
        return sets("answer", "nobody")

    cast = Cast(plan=plan, work=work, review=review, investigate=investigate)
    report = await repaired(cast, tests=TESTS)
    assert report.failure == ""
    assert report.rounds == 2
    assert sorted(set(report.causes)) == ["quantities were replaced", "the limit itself had no discount"]
    assert (report.before.status, report.after.status) == (1, 0)
    assert await passes_with(report.diff, tmp_path / "applied")
    assert "✓ investigate(" in report.tree
    assert report.spent.startswith("8 steps, 13 requests, 195 tokens")


async def test_tests_that_still_fail_are_shown_to_the_next_plan() -> None:
    def plan(turn: Turn) -> ModelResponse:
        if turn.round == 1:
            return sets("tasks", [CART])
        assert "the tests still fail after: add to the quantity" in turn.prompt
        assert "1 failed" in turn.prompt
        return sets("tasks", [DISCOUNTS])

    report = await repaired(Cast(plan=plan, work=fixes, review=accepts))
    assert report.failure == ""
    assert report.rounds == 2


async def test_after_the_last_round_it_gives_up() -> None:
    report = await repaired(Cast(plan=plans(CART), work=fixes), rounds=1)
    assert "1 failed" in report.after.output
    assert report.failure == ("not repaired after 1 rounds: the tests still fail after: add to the quantity")


async def test_a_worker_that_fails_is_a_remark() -> None:
    def work(turn: Turn) -> ModelResponse:
        if "begin at 100.00" in turn.prompt and turn.round < 3:
            return model_response(tool_call("nh_outcome", kind="raise", raise_message="I am lost"))
        return fixes(turn)

    def plan(turn: Turn) -> ModelResponse:
        if turn.round == 1:
            return sets("tasks", [CART, DISCOUNTS])
        assert "I am lost" in turn.prompt
        return sets("tasks", [DISCOUNTS])

    report = await repaired(Cast(plan=plan, work=work, review=accepts))
    assert report.failure == ""


async def test_a_plan_may_say_that_the_tests_are_wrong() -> None:
    reason = {"raise_error_type": "CannotRepairError", "raise_message": "100.00 has no discount"}
    call = tool_call("nh_outcome", kind="raise", **reason)
    report = await repaired(Cast(plan=lambda turn: model_response(call)))
    assert report.failure == "planning failed: 100.00 has no discount"
    assert report.diff == ""
    assert report.after == report.before


# ---- limits


async def test_the_budget_runs_out_in_the_middle() -> None:
    cast = Cast(plan=plans(CART, DISCOUNTS), work=fixes, review=accepts)
    report = await repaired(cast, steps=2)
    assert report.failure == "budget repair: no room for 1 step: 2 spent of 2"
    assert len({turn.prompt for turn in cast.seen_by("work")}) == 1
    assert cast.seen_by("review") == []
    assert report.after == report.before


async def test_a_budget_that_runs_out_below_a_worker_ends_the_repair() -> None:
    def work(turn: Turn) -> ModelResponse:
        if turn.number == 1:
            return evaluates("await investigate(workspace, 'where?')")
        return fixes(turn)

    cast = Cast(plan=plans(CART), work=work, investigate=lambda turn: sets("answer", "there"))
    report = await repaired(cast, steps=2)
    assert report.failure == "budget repair: no room for 1 step: 2 spent of 2"
    assert cast.seen_by("investigate") == []


async def test_workers_that_call_workers_meet_the_depth_limit() -> None:
    smaller = "await work(workspace, Task(files=['shop/cart.py'], goal='a part'))"

    def work(turn: Turn) -> ModelResponse:
        if turn.number == 1 and "begin at 100.00" not in turn.prompt:
            return evaluates(smaller)
        if turn.number == 2 and "NestedStepLimitError" in turn.seen:
            assert "max_depth allows 2" in turn.seen
            return executes(ADDS)  # it does it itself
        return fixes(turn) if "begin at 100.00" in turn.prompt else sets("cause", "quantities were replaced")

    cast = Cast(plan=plans(CART, DISCOUNTS), work=work, review=accepts)
    report = await repaired(cast, depth=2)
    assert report.failure == ""
    assert sum(turn.number == 1 for turn in cast.seen_by("work")) == 3
    assert report.causes == ["quantities were replaced", "fixed"]


# ---- what agents may not do


async def test_a_change_of_the_tests_is_not_accepted() -> None:
    def work(turn: Turn) -> ModelResponse:
        if turn.number == 1 and turn.round == 1:
            return evaluates("await workspace.shell('echo \"def test_a(): pass\" > shop/test_cart.py')")
        if turn.round == 1:
            return sets("cause", "the tests")
        assert "shop/test_cart.py" in turn.prompt
        return sets("cause", "nothing")

    def plan(turn: Turn) -> ModelResponse:
        if turn.round == 1:
            return sets("tasks", [CART])
        assert "shop/test_cart.py has to be as it was" in turn.prompt
        return sets("tasks", [{"files": ["shop/test_cart.py"], "goal": "put it back"}])

    report = await repaired(Cast(plan=plan, work=work), rounds=2)
    assert report.after.status == 0
    assert report.failure == "not repaired after 2 rounds: shop/test_cart.py has to be as it was"


@pytest.mark.parametrize(
    "statements",
    [
        "open('/etc/passwd').read()",
        "type(workspace)('/', writable=True).read('etc/passwd')",
        "workspace.create('../escaped.py', '')",
        "workspace.read('/etc/passwd')",
    ],
)
async def test_only_the_copy_can_be_reached(statements: str) -> None:
    def work(turn: Turn) -> ModelResponse:
        if turn.number == 1:
            return executes(statements)
        refusals = ("default: deny", "leads out of the workspace", "is not shown")
        assert any(each in turn.seen for each in refusals)
        return sets("cause", "refused")

    report = await repaired(Cast(plan=plans(CART), work=work), rounds=1)
    assert report.causes == ["refused"]
    assert report.diff == ""


async def test_only_workers_can_change_the_copy() -> None:
    def plan(turn: Turn) -> ModelResponse:
        if turn.number == 1:
            return executes(ADDS)
        assert "the workspace is read-only" in turn.seen
        return sets("tasks", [CART, DISCOUNTS])

    report = await repaired(Cast(plan=plan, work=fixes, review=accepts))
    assert report.failure == ""


async def test_settings_of_git_in_the_copy_are_not_used(tmp_path: Path) -> None:
    spy = tmp_path / "spied"
    script = (
        f"printf '#!/bin/sh\\necho x >{spy}\\n' >spy.sh; chmod +x spy.sh; mkdir .git; "
        "printf '[diff]\\nexternal = ./spy.sh\\n' >.git/config; printf '*.py diff=spy\\n' >.gitattributes"
    )

    def work(turn: Turn) -> ModelResponse:
        if turn.number == 1:
            return evaluates(f"await workspace.shell({script!r})")
        return sets("cause", "none")

    report = await repaired(Cast(plan=plans(CART), work=work), rounds=1)
    assert not spy.exists()
    assert "+*.py diff=spy" in report.diff
    assert "external" not in report.diff


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
async def test_no_process_is_left(tmp_path: Path) -> None:
    duration = f"1000.{random.SystemRandom().randrange(10**12):012}"

    def work(turn: Turn) -> ModelResponse:
        if turn.number == 1:
            return evaluates(
                f"await workspace.shell('setsid sleep {duration} >/dev/null & sleep {duration} &')"
            )
        return sets("cause", "none")

    report = await repaired(Cast(plan=plans(CART), work=work), rounds=1)
    assert report.causes == ["none"]
    assert [line for line in command_lines() if duration.encode() in line] == []


def command_lines() -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(path.read_bytes())
    return found


# ---- the command line


async def test_the_command_prints_and_writes_the_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = read_arguments(["--sandbox", "auto", "--output", str(tmp_path / "fix.diff")])
    arguments.model = Cast(plan=plans(CART, DISCOUNTS), work=fixes, review=accepts).model
    assert await main(arguments) == 0
    shown = capsys.readouterr().out
    assert re.search(r"Tests before: 2 failed, 1 passed.*\nTests after:  3 passed", shown)
    assert "What was wrong:\n- fixed\n- fixed\n\ndiff --git a/shop/cart.py b/shop/cart.py\n" in shown
    assert "Rounds: 1; 4 steps, 6 requests, 90 tokens" in shown
    assert await passes_with((tmp_path / "fix.diff").read_text(), tmp_path / "applied")


async def test_the_command_says_that_nothing_was_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "fix.diff"
    arguments = read_arguments(
        ["--sandbox", "auto", "--tests", QUICK, "--rounds", "1", "--output", str(output)]
    )
    arguments.model = Cast(plan=plans(CART), work=fixes).model
    assert await main(arguments) == 1
    assert "Nothing was changed: not repaired after 1 rounds" in capsys.readouterr().out
    assert not output.exists()


async def test_the_command_has_nothing_to_do_when_the_tests_pass(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = read_arguments(["--sandbox", "auto", "--tests", "echo all good"])
    arguments.model = Cast().model
    assert await main(arguments) == 0
    assert "Tests before: all good\nThere is nothing to repair.\n" in capsys.readouterr().out


async def test_the_command_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert await main(read_arguments(["--sandbox", "auto", "--tests", QUICK])) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await main(read_arguments([])) == 2
    assert "sandbox='off'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        read_arguments([str(tmp_path / "missing")])
