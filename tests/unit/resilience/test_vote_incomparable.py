"""What a plurality does with values that do not say whether they are equal, as arrays do not."""

from collections.abc import Callable

import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import VoteError, ensemble, plurality, vote
from nighthawk_async.testing import pass_response
from tests.unit.resilience.ensemble_support import ModelsExecutor
from tests.unit.resilience.resilience_support import Script

anyio_test = pytest.mark.anyio

MESSAGE = (
    "does not say whether two values are equal.*give decide=.* to a vote, or reconcile=.* to an ensemble"
)


class Ambiguous:
    """What has no truth value."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class Array:
    """Compares element by element."""

    def __eq__(self, other: object) -> "Ambiguous":  # type: ignore[override]
        return Ambiguous()

    __hash__ = None  # type: ignore[assignment]


class Refusing:
    """Cannot be compared at all."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


KINDS = pytest.mark.parametrize("kind", [Array, Refusing])


async def caught_from(
    function: Script, transform: Callable[..., Callable[..., object]], *, is_async: bool
) -> VoteError:
    async def call() -> None:
        if is_async:
            await transform(function.call_async)()
        else:
            await anyio.to_thread.run_sync(transform(function.call))

    with pytest.raises(VoteError, match=MESSAGE) as caught:
        await call()
    return caught.value


@KINDS
def test_there_is_no_plurality_of_them(kind: type) -> None:
    with pytest.raises(VoteError, match=MESSAGE):
        plurality([kind(), kind()])


@anyio_test
@KINDS
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_vote_asks_for_another_decision(kind: type, is_async: bool) -> None:
    error = await caught_from(Script(kind(), kind(), kind()), vote, is_async=is_async)
    assert [str(each) for each in error.errors] == ["ambiguous"]
    assert error.__cause__ is error.errors[0]


@anyio_test
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_an_ensemble_asks_for_something_to_reconcile_them(is_async: bool) -> None:
    async with nh.run(ModelsExecutor(lambda model, call: pass_response())):
        script = Script(Array(), Array())
        await caught_from(script, ensemble(models={"test:a": 1, "test:b": 1}), is_async=is_async)


@anyio_test
async def test_the_same_value_is_the_same_without_a_comparison() -> None:
    array = Array()
    assert await vote(Script(array).call_async)() is array


@anyio_test
async def test_a_decision_of_ones_own_gets_them_all() -> None:
    assert await vote(Script(Array(), Array(), Array()).call_async, decide=len)() == 3
