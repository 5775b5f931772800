"""What jedi, which runs nothing, tells of the library: completions, signatures and help."""

from importlib import import_module
from typing import Any

import pytest

import nighthawk_async as nh

jedi: Any = import_module("jedi")  # it has no types
HERE: Any = jedi.InterpreterEnvironment()
"""Looks at the packages of this process; another environment starts one."""

FUNCTIONS = (
    *(
        "natural_function",
        "run",
        "start_run",
        "start_run_sync",
        "scope",
        "step",
        "step_sync",
        "budget",
        "permissions",
        "tool",
    ),
    *("tool_set", "once", "blocking", "ask_user", "request_approval", "progress", "transcript", "deadline"),
    *("parallel.map", "parallel.settle", "evals.evaluate", "journal.open", "asgi.NighthawkMiddleware"),
    *("testing.ScriptedExecutor", "library.Workspace", "mcp.stdio", "models.ModelPrice"),
)
POLICIES = ("hooks", "oversight", "human", "permissions", "egress", "budget", "resilience", "code")
"""Keywords that `run`, `scope` and the middleware share."""


def program(line: str) -> Any:
    """A program that uses the library in its last line."""
    return jedi.Script(f"import nighthawk_async as nh\n{line}", environment=HERE)


def test_every_export_is_completed() -> None:
    completed = {each.name for each in program("nh.").complete(2, 3)}
    assert set(nh.__all__) <= completed


@pytest.mark.parametrize("room", ["evals", "testing", "asgi", "journal", "parallel"])
def test_every_export_of_a_room_is_completed(room: str) -> None:
    script = jedi.Script(f"from nighthawk_async.{room} import ", environment=HERE)
    completed = {each.name for each in script.complete(1, len(f"from nighthawk_async.{room} import "))}
    assert set(__import__(f"nighthawk_async.{room}", fromlist=["__all__"]).__all__) <= completed


def test_functions_show_a_signature_and_help() -> None:
    silent: list[str] = []
    for name in FUNCTIONS:
        script = program(f"nh.{name}(")
        signatures = script.get_signatures()
        helped = script.help(2, len(f"nh.{name}") - 1)
        if not signatures or not any(each.docstring() for each in helped):
            silent.append(name)
    assert silent == []


@pytest.mark.parametrize("name", ["run", "start_run", "start_run_sync", "scope", "asgi.NighthawkMiddleware"])
def test_policies_are_keywords_of_the_signature(name: str) -> None:
    (signature,) = program(f"nh.{name}(").get_signatures()
    assert set(POLICIES) <= {each.name for each in signature.params}
