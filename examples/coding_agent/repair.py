"""Lets Claude Code or Codex repair a repository under a budget, with permissions and approvals."""

# python -m examples.coding_agent.repair /repo "the total is one too high"
import subprocess
import sys
from pathlib import Path

import anyio

import nighthawk_async as nh

MODEL = "claude-code-cli:sonnet"  # or "codex:default"
RULES = nh.permissions(
    allow=[
        *("ClaudeCode.Read", "ClaudeCode.Edit", "ClaudeCode.Grep", "ClaudeCode.Glob"),
        nh.policies.rule("ClaudeCode.Bash", command="git diff*"),
        "Codex.apply_patch",
        nh.policies.rule("Codex.shell", command="git diff*"),
        "run_tests",
    ],
    deny=[
        nh.policies.rule("ClaudeCode.Bash", command="git push*"),
        nh.policies.rule("Codex.shell", command="git push*"),
    ],
    default="ask",
)


def configuration(folder: Path) -> nh.StepExecutorConfiguration:
    """The configuration of the agent."""
    settings = (
        nh.executors.CodexSettings(
            working_directory=str(folder), native_tools=("shell", "apply_patch"), sandbox="workspace-write"
        )
        if MODEL.startswith("codex:")
        else nh.executors.ClaudeCodeCliSettings(
            working_directory=str(folder), native_tools=("Read", "Edit", "Grep", "Glob", "Bash")
        )
    )
    return nh.StepExecutorConfiguration(model=MODEL, model_settings=settings, step_timeout=600)


async def run_tests(folder: Path) -> str:
    """Run the tests of the repository, and return the end of their output."""
    command = [sys.executable, "-B", "-m", "unittest"]
    done = await anyio.run_process(command, cwd=folder, check=False, stderr=subprocess.STDOUT)
    return f"exit code {done.returncode}\n{done.stdout.decode(errors='replace')[-4_000:]}"


@nh.natural_function
async def repair(fault: str, folder: Path) -> str:
    summary: str = nh.unset
    """natural
    Repair <fault> in the working directory, which is <folder>. Call <run_tests> until they pass. Set
    <:summary> to one sentence about the change.
    """
    return summary


async def main(folder: Path, fault: str) -> None:
    human = nh.human.TerminalHandler()
    async with nh.run(configuration(folder), permissions=RULES, human=human):
        with nh.budget(tokens=500_000):
            print(await repair(fault, folder))
        print(nh.get_usage_meter().usage)
    print(await run_tests(folder))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]).resolve(), sys.argv[2])
