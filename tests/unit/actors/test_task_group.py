"""Task groups whose one error leaves as it is."""

import anyio
import pytest

from nighthawk_async.actors import BareTaskGroup

pytestmark = pytest.mark.anyio


async def fail(error: BaseException) -> None:
    raise error


async def run_tasks(
    *errors: BaseException, body: BaseException | None = None, is_waiting: bool = False
) -> None:
    async with BareTaskGroup() as task_group:
        for error in errors:
            task_group.start_soon(fail, error)
        if body is not None:
            raise body
        if is_waiting:
            await anyio.sleep_forever()


async def test_a_group_without_errors_waits_for_its_tasks() -> None:
    ended: list[bool] = []

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        ended.append(True)

    async with BareTaskGroup() as task_group:
        task_group.start_soon(work)
    assert ended == [True]


async def test_the_one_error_of_a_task_or_of_the_body_is_raised_itself() -> None:
    error = LookupError("one")
    for arguments in ({"body": error}, {}):
        with pytest.raises(LookupError) as caught:
            await run_tasks(*([] if arguments else [error]), **arguments)
        assert caught.value is error


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_the_error_keeps_its_own_context_and_does_not_refer_to_a_group(is_waiting: bool) -> None:
    error = LookupError("one")
    error.__context__ = origin = KeyError("origin")
    with pytest.raises(LookupError) as caught:
        await run_tasks(error, is_waiting=is_waiting)
    assert caught.value is error
    assert caught.value.__context__ is origin
    assert not caught.value.__suppress_context__


async def test_the_error_of_a_body_keeps_its_context_too() -> None:
    error = LookupError("one")
    error.__context__ = origin = KeyError("origin")
    with pytest.raises(LookupError) as caught:
        await run_tasks(body=error)
    assert caught.value.__context__ is origin


async def test_several_errors_are_raised_as_a_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_tasks(LookupError("one"), LookupError("two"))
    assert sorted(str(error) for error in caught.value.exceptions) == ["one", "two"]


async def test_a_group_that_a_task_raised_on_purpose_stays_a_group() -> None:
    with pytest.raises(ExceptionGroup, match="on purpose") as caught:
        await run_tasks(ExceptionGroup("on purpose", [LookupError("one")]))
    assert [str(error) for error in caught.value.exceptions] == ["one"]


async def test_cancellation_goes_no_further_than_its_scope() -> None:
    with anyio.CancelScope() as scope:
        async with BareTaskGroup() as task_group:
            task_group.start_soon(anyio.sleep_forever)
            scope.cancel()
    assert scope.cancelled_caught


async def test_an_error_takes_the_place_of_a_cancellation_and_is_raised_bare() -> None:
    async def fail_in_cleanup() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise LookupError("cleanup")

    async def cancelled_group() -> None:
        with anyio.CancelScope() as scope:
            async with BareTaskGroup() as task_group:
                task_group.start_soon(fail_in_cleanup)
                await anyio.lowlevel.checkpoint()
                scope.cancel()
                await anyio.sleep_forever()

    with pytest.raises(LookupError, match="cleanup"):
        await cancelled_group()


class OwnGroup(ExceptionGroup[ValueError]):
    """A group of the user's own, with data on it."""


async def test_an_exception_group_raised_on_purpose_stays_the_same_object() -> None:
    own = OwnGroup("mine", [ValueError("inside")])
    with pytest.raises(OwnGroup) as caught:
        async with BareTaskGroup():
            raise own
    assert caught.value is own
