"""`examples/coding_agent`: a coding agent repairs a repository."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from examples.coding_agent import repair
from nighthawk_async.testing import ModelServer
from tests.faults.coding_agents import codex
from tests.faults.coding_agents.claude_code import Claude, Kind, call, nh_call, reply

pytestmark = pytest.mark.anyio

OUTCOME = nh_call("nh_outcome", kind="pass")

TEST = """
import unittest
from prices import total


class Test(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""


class Colleague:
    """Approves edits, and nothing else."""

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        """Answer a request for an approval."""
        if str(request.arguments.get("command")).startswith("sed -i"):
            request.approve("ada", digest=request.digest)
        else:
            request.deny("ada", "not that")

    async def ask(self, question: nh.human.Question) -> object:
        """Answer a question."""
        raise nh.errors.NoHumanError("no questions")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "prices.py").write_text("def total(prices):\n    return sum(prices) + 1\n")
    (folder / "test_prices.py").write_text(TEST)
    return folder


def use(monkeypatch: pytest.MonkeyPatch, model: str, settings: Callable[[], Mapping[str, Any]]) -> None:
    """Have the example use an agent for tests."""
    monkeypatch.setattr(repair, "MODEL", model)
    monkeypatch.setattr(nh.human, "TerminalHandler", Colleague)
    original = repair.configuration

    def configured(of: Path) -> nh.StepExecutorConfiguration:
        made = original(of)
        fields = {**made.model_settings, **settings(), "working_directory": str(of)}
        return made.model_copy(update={"model_settings": fields})

    monkeypatch.setattr(repair, "configuration", configured)


def check(folder: Path, printed: str, sent: Callable[[int], str]) -> None:
    """Check what the example has done."""
    assert "It no longer adds one." in printed
    assert "exit code 0" in printed
    assert "exit code 1" in sent(1)
    assert "git push" in sent(2)
    assert "not that" in sent(3)
    assert (folder / "prices.py").read_text() == "def total(prices):\n    return sum(prices)\n"


COMMANDS = ("git push", "rm -r .", "sed -i 's/ + 1//' prices.py")
SUMMARY = "'It no longer adds one.'"


@pytest.mark.parametrize("kind", ["fake", "real"])
async def test_claude_code_repairs_a_repository(
    kind: Kind,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tests = nh_call("nh_exec", statements="await run_tests(folder)")
    claude = Claude(
        kind,
        tmp_path,
        [
            reply(tests),
            *(reply(call("Bash", command=command, description="x")) for command in COMMANDS),
            reply(tests),
            reply(nh_call("nh_exec", statements=f"summary = {SUMMARY}"), OUTCOME),
        ],
    )
    use(monkeypatch, "claude-code-cli:sonnet", lambda: claude.settings().model_dump(exclude_unset=True))
    async with claude.serving():
        await repair.main(folder, "the total is one too high")
    check(folder, capsys.readouterr().out, claude.sent)


async def test_codex_repairs_a_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = codex.call("nh_exec", statements="await run_tests(folder)")
    model = codex.Scripted(
        codex.calls(tests),
        *(codex.calls(codex.call("exec_command", cmd=command)) for command in COMMANDS),
        codex.calls(replace(tests, id="again")),
        codex.calls(
            codex.call("nh_exec", statements=f"summary = {SUMMARY}"),
            codex.call("nh_outcome", kind="pass"),
        ),
    )
    async with ModelServer(model) as server:
        settings = {"executable": codex.command(), "base_url": server.base_url, "api_key": "key"}
        use(monkeypatch, "codex:gpt-5.4", lambda: settings)
        await repair.main(folder, "the total is one too high")
    check(folder, capsys.readouterr().out, lambda number: model.requests[number].content.decode())
