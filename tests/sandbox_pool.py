"""The package pydantic-monty keeps a pipe for as long as the process lives; it is made before tests are watched."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def monty_was_used() -> None:
    """Use it once. A `conftest` whose tests use `nh.Sandbox` imports this fixture."""
    pydantic_monty = pytest.importorskip("pydantic_monty")
    with pydantic_monty.Monty() as pool, pool.checkout() as session:
        assert session.feed_run("1 + 1") == 2
