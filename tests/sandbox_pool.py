"""The package pydantic-monty keeps a pipe while the process lives, so it is used before tests are."""

import importlib.util

import pytest


@pytest.fixture(scope="session", autouse=True)
def monty_was_used() -> None:
    """Use it once, if it is there. A `conftest` whose tests use `nh.Sandbox` imports this fixture."""
    if importlib.util.find_spec("pydantic_monty") is None:
        return
    import pydantic_monty

    with pydantic_monty.Monty() as pool, pool.checkout() as session:
        assert session.feed_run("1 + 1") == 2
