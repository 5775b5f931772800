"""What type checkers see of transformers. Running this shows little: a type checker reads `assert_type`."""

from collections.abc import Coroutine
from typing import Any, assert_type

import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import (
    Answer,
    Attempt,
    CircuitBreaker,
    Ensemble,
    Fallback,
    RateLimit,
    Retrying,
    Timeout,
    Vote,
    circuit_breaker,
    ensemble,
    fallback,
    plurality,
    rate_limit,
    retrying,
    timeout,
    vote,
)
from nighthawk_async.testing import pass_response
from tests.unit.resilience.ensemble_support import ModelsExecutor

pytestmark = pytest.mark.anyio


async def read(name: str, *, size: int = 1) -> bytes:
    return name.encode() * size


def read_here(name: str, *, size: int = 1) -> bytes:
    return name.encode() * size


class Reader:
    @retrying
    async def method(self, name: str) -> bytes:
        return await read(name)

    @rate_limit(per_minute=60)
    def method_here(self, name: str) -> bytes:
        return read_here(name)

    @circuit_breaker()
    @staticmethod
    def static(name: str) -> bytes:
        return read_here(name)

    @timeout(30)
    @classmethod
    def on_class(cls, name: str) -> bytes:
        return read_here(name)


async def test_async_stays_async_with_the_same_signature() -> None:
    for function in (
        retrying(read),
        retrying(attempts=2)(read),
        fallback(read, read),
        timeout(read, 30),
        timeout(30)(read),
        circuit_breaker(read),
        rate_limit(read, per_minute=60),
        vote(read),
        vote(count=2)(read),
    ):
        assert_type(await function("a", size=2), bytes)
    with pytest.raises(AttributeError):
        await retrying(read)(5)  # type: ignore[arg-type]


def test_sync_stays_sync_with_the_same_signature() -> None:
    for function in (
        retrying(read_here),
        retrying(attempts=2)(read_here),
        fallback(read_here, read_here),
        timeout(read_here, 30),
        timeout(30)(read_here),
        circuit_breaker(read_here),
        rate_limit(read_here, per_minute=60),
        vote(read_here),
        vote(count=2)(read_here),
    ):
        assert_type(function("a", size=2), bytes)
    with pytest.raises(TypeError):
        retrying(read_here)("a", length=2)  # type: ignore[call-arg]


async def test_a_default_joins_the_result() -> None:
    assert_type(await fallback(read, default=None)("a"), bytes | None)
    assert_type(fallback(read_here, default=5)("a"), bytes | int)
    coroutine = assert_type(fallback(read, default=None)("a"), Coroutine[Any, Any, bytes | None])
    assert await coroutine == b"a"


async def test_methods_stay_methods() -> None:
    reader = Reader()
    assert_type(await reader.method("a"), bytes)
    assert_type(reader.method_here("a"), bytes)
    assert_type(reader.static("a"), bytes)
    assert_type(Reader.static("a"), bytes)
    assert_type(reader.on_class("a"), bytes)


async def test_without_a_function_there_is_a_decorator() -> None:
    assert_type(retrying(), Retrying)
    assert_type(fallback(default=None), Fallback)
    assert_type(timeout(5), Timeout)
    assert_type(circuit_breaker(), CircuitBreaker)
    assert_type(rate_limit(per_minute=5), RateLimit)
    assert_type(vote(count=5), Vote)
    assert_type(ensemble(models={"test:a": 2}), Ensemble)
    for attempt in retrying():
        assert_type(attempt, Attempt)
        with attempt:
            break
    async for attempt in retrying():
        with attempt:
            break


async def test_an_ensemble_has_the_signature_of_its_function() -> None:
    async with nh.run(ModelsExecutor(lambda model, call: pass_response())):
        assert_type(await ensemble(read, {"test:a": 2})("a", size=2), bytes)
        assert_type(await ensemble(models={"test:a": 2})(read)("a"), bytes)


def count_bytes(values: list[bytes]) -> int:
    return len(values)


async def count_later(values: list[bytes]) -> int:
    return len(values)


def count_answers(answers: list[Answer[bytes]]) -> int:
    return len(answers)


async def count_answers_later(answers: list[Answer[bytes]]) -> int:
    return len(answers)


async def test_what_decides_says_what_a_vote_gives() -> None:
    assert_type(await vote(read, decide=count_bytes)("a", size=2), int)
    assert_type(await vote(read, decide=count_later)("a"), int)
    assert_type(await vote(read, decide=list)("a"), list[bytes])
    assert_type(await vote(read, decide=max)("a"), bytes)
    assert_type(await vote(read, decide=plurality)("a"), bytes)
    coroutine = assert_type(vote(read, decide=count_bytes)("a"), Coroutine[Any, Any, int])
    assert await coroutine == 3
    assert_type(await vote(decide=count_bytes)(read)("a", size=2), int)
    assert_type(await vote(decide=count_later)(read)("a"), int)
    assert_type(await vote(decide=list)(read)("a"), list[bytes])
    # mypy finds no type for an overloaded function before it knows the values, as the documentation says.
    assert_type(await vote(decide=max)(read)("a"), bytes)  # type: ignore[assert-type]


def test_what_decides_says_what_a_synchronous_vote_gives() -> None:
    assert_type(vote(read_here, decide=count_bytes)("a", size=2), int)
    assert_type(vote(read_here, decide=list)("a"), list[bytes])
    assert_type(vote(decide=count_bytes)(read_here)("a", size=2), int)
    assert_type(vote(decide=max)(read_here)("a"), bytes)  # type: ignore[assert-type]


def test_what_decides_says_what_a_static_method_gives() -> None:
    class Deciders:
        @vote(decide=count_bytes)
        @staticmethod
        def static(name: str) -> bytes:
            return read_here(name)

        @vote(decide=count_bytes)
        def method(self, name: str) -> bytes:
            return read_here(name)

    assert_type(Deciders.static("a"), int)
    assert_type(Deciders().method("a"), int)


async def test_what_reconciles_says_what_an_ensemble_gives() -> None:
    models = {"test:a": 2}
    async with nh.run(ModelsExecutor(lambda model, call: pass_response())):
        assert_type(await ensemble(read, models, reconcile=count_answers)("a", size=2), int)
        assert_type(await ensemble(read, models, reconcile=count_answers_later)("a"), int)
        assert_type(await ensemble(models=models, reconcile=count_answers)(read)("a", size=2), int)
        assert_type(await ensemble(models=models, reconcile=count_answers_later)(read)("a"), int)


def test_what_reconciles_says_what_a_synchronous_ensemble_gives() -> None:
    with nh.run(ModelsExecutor(lambda model, call: pass_response())):
        assert_type(ensemble(read_here, {"test:a": 2}, reconcile=count_answers)("a", size=2), int)


def test_a_plurality_is_one_of_the_values() -> None:
    assert_type(plurality(["a", "b", "b"]), str)
