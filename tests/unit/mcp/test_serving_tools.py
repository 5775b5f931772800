"""The functions that can be served, and the arguments of `serve`."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from mcp.types import Tool

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError, NighthawkError, ToolRegistrationError
from nighthawk_async.mcp import Served

from .serving_support import CLIENT_WARNINGS, connected, count_run, stars


@nh.natural_function
async def triage(issue: str, urgent: bool = False) -> str:
    """natural
    ---
    deny: [raise]
    ---
    Find the owner of <issue> and return a plan. Write \\<b> for bold.
    Set <:owner> first.
    """
    owner: str
    return owner


class Clerk:
    """Somebody with methods."""

    async def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    async def __call__(self, number: int) -> int:
        """Count on."""
        return number + 1


async def listed(*functions: Callable[..., Any] | Served) -> list[Tool]:
    async with connected(nh.mcp.serve(functions, run=count_run)) as client:
        return (await client.list_tools()).tools


@pytest.mark.anyio
@CLIENT_WARNINGS
async def test_a_block_that_is_the_docstring_describes_its_function() -> None:
    (tool,) = await listed(triage)
    assert tool.description == (
        "Find the owner of issue and return a plan. Write <b> for bold.\nSet owner first."
    )
    assert list(tool.input_schema["properties"]) == ["issue", "urgent"]


@pytest.mark.anyio
@CLIENT_WARNINGS
async def test_a_long_block_is_cut_off_in_the_description() -> None:
    async def described() -> None: ...

    described.__doc__ = "natural\n" + "word " * 1_000
    (tool,) = await listed(described)
    assert tool.description is not None
    assert len(tool.description) == 2_000
    assert tool.description.endswith("…")


@pytest.mark.anyio
@CLIENT_WARNINGS
async def test_methods_and_callable_objects_are_served_too() -> None:
    greet, count = await listed(Clerk().greet, Served(Clerk(), name="count_on", description="Count."))
    assert (greet.name, greet.description) == ("greet", "Greet somebody.")
    assert (count.name, count.description, count.title) == ("count_on", "Count.", None)


@pytest.mark.anyio
@CLIENT_WARNINGS
async def test_what_a_function_takes_without_names_is_a_list_and_an_object() -> None:
    def total(first: int, *rest: int, **weights: int) -> int:
        return first + sum(rest) + sum(weights.values())

    async with connected(nh.mcp.serve([total], run=count_run)) as client:
        (tool,) = (await client.list_tools()).tools
        assert list(tool.input_schema["properties"]) == ["first", "rest", "weights"]
        assert tool.input_schema["required"] == ["first"]
        counted = await client.call_tool("total", {"first": 1, "rest": [2, 3], "weights": {"a": 4}})
        refused = await client.call_tool("total", {"first": 1, "weights": {"first": 4}})
    assert (counted.is_error, "text='10'" in str(counted.content)) == (False, True)
    assert refused.is_error
    assert "is a parameter of its own" in str(refused.content)


async def numbers() -> AsyncIterator[int]:
    yield 1


def letters() -> Iterator[str]:
    yield "a"


def takes_a_step(run_context: nh.RunContext[nh.StepContext]) -> None: ...


def takes_an_object(value: Clerk) -> None: ...


def takes_nothing_known(value: "Unknown") -> None: ...  # type: ignore[name-defined]


def returns_nothing_known() -> "Unknown": ...  # type: ignore[name-defined]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        pytest.param([], "There is no function to serve", id="none"),
        pytest.param([stars, stars], "both named 'stars'", id="twice"),
        pytest.param([Served(stars, name="a b")], "must be ASCII", id="bad name"),
        pytest.param([Served(stars, name="a" * 65)], "at most 64 characters", id="long name"),
        pytest.param([numbers], "is a generator", id="async generator"),
        pytest.param([letters], "is a generator", id="generator"),
        pytest.param([takes_a_step], "RunContext", id="run context"),
        pytest.param([takes_an_object], "has no JSON Schema", id="no schema"),
        pytest.param([takes_nothing_known], "cannot be resolved", id="unknown parameter"),
        pytest.param([returns_nothing_known], "cannot be resolved", id="unknown result"),
        pytest.param(["stars"], "is no function to serve", id="text in a list"),
        pytest.param("stars", "are given as a list", id="text"),
        pytest.param(stars, "are given as a list", id="function"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(functions: Any, message: str) -> None:
    with pytest.raises(ToolRegistrationError, match=message):
        nh.mcp.serve(functions, run=count_run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"run": None}, "run must be a function", id="no run"),
        pytest.param({"path": "mcp"}, "path must begin with a slash", id="path"),
        pytest.param({"token": ""}, "token must be", id="empty token"),
        pytest.param({"token": "schlüssel"}, "token must be", id="token of other characters"),
        pytest.param({"allowed_hosts": "a.example"}, "allowed_hosts must be a list", id="hosts"),
        pytest.param({"allowed_origins": [1]}, "allowed_origins must be a list", id="origins"),
        pytest.param({"max_concurrent_requests": 0}, "max_concurrent_requests", id="concurrent"),
        pytest.param({"max_queued_requests": -1}, "max_queued_requests", id="queued"),
        pytest.param({"max_requests_per_client": 2}, "needs client_of", id="per client"),
        pytest.param({"request_timeout": "1"}, "request_timeout", id="timeout"),
        pytest.param({"grace_seconds": -1}, "grace_seconds", id="grace"),
        pytest.param({"retry_after_seconds": 100_000}, "retry_after_seconds", id="retry"),
        pytest.param({"request_budget": 3}, "request_budget must be a budget", id="budget"),
        pytest.param({"max_body_bytes": 0}, "max_body_bytes", id="body"),
    ],
)
def test_a_bad_argument_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(NighthawkError, match=message):
        nh.mcp.serve([stars], **{"run": count_run, **arguments})


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nighthawk_async.mcp.package.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"nighthawk-async\[mcp\]"):
        nh.mcp.serve([stars], run=count_run)
