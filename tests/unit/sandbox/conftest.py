"""The package pydantic-monty keeps a pipe of its own for as long as the process lives; it is made here."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def used_once() -> None:
    pydantic_monty = pytest.importorskip("pydantic_monty")
    with pydantic_monty.Monty() as pool, pool.checkout() as session:
        assert session.feed_run("1 + 1") == 2
