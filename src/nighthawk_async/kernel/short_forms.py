"""Methods of a policy in short: `before_…` and `after_…` for what only looks at things or changes them.

A class derived from `Policy` may define them instead of the methods that they are short for. They are called
in the same places, and an error of one names it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any

from ..errors import ToolBoundaryError
from ..types.messages import ToolCall, ToolResult
from ..types.model import ModelEvent, ModelRequest
from .commit import CommitProceed, StepCommit, check_answer, decided, failing_as_policy
from .conclude import StepResult
from .fold import (
    Events,
    ModelCall,
    OpenRequest,
    OpenResponse,
    StepEnd,
    StepProceed,
    ToolCallProceed,
    check_call,
    check_result,
    with_end_reported,
)


def complete(cls: type[Any], base: type[Any]) -> None:
    """Give a class the methods that its short forms stand for.

    Args:
        cls: A class derived from `Policy`.
        base: `Policy`.

    Raises:
        TypeError: It defines a method and a short form of it, or an async method where nothing is awaited.
    """
    if iscoroutinefunction(cls.prepare):
        raise TypeError(f"{cls.__qualname__}.prepare must be `def`: nothing is awaited before a step begins")
    around_step: Callable[..., Any] | None = vars(cls).get("around_step")
    if around_step is not None and not _takes_step(around_step):
        cls.around_step = _with_step(around_step)
    for names, method, around in _SHORT_FORMS:
        if not any(hasattr(cls, name) for name in names) or getattr(cls, method) is around:
            continue
        if getattr(cls, method) is not getattr(base, method):
            if any(name in vars(cls) for name in names) and method in vars(cls):
                raise TypeError(
                    f"{cls.__qualname__} defines {method} and {' or '.join(names)}, which is short for it"
                )
            continue
        setattr(cls, method, around)


def _takes_step(around_step: Callable[..., Any]) -> bool:
    """Whether a method takes the step and `proceed`, and not `proceed` alone."""
    try:
        signature(around_step).bind(None, None, None)
    except TypeError:
        return False
    return True


def _with_step(around_step: Callable[[Any, StepProceed], Awaitable[StepEnd]]) -> Any:
    @wraps(around_step)
    async def with_step(self: Any, *step_and_proceed: Any) -> StepEnd:
        return await around_step(self, step_and_proceed[-1])  # `super().around_step(proceed)` comes here, too

    return with_step


async def _around_commit(self: Any, commit: StepCommit, proceed: CommitProceed) -> StepResult:
    method = f"{type(self).__qualname__}.before_commit"

    async def ask(commit: StepCommit) -> StepCommit | None:
        with failing_as_policy(method):
            answer: StepCommit | None = await self.before_commit(commit)
            if answer is not None:
                check_answer(answer, StepCommit, method)
                check_answer(answer.bindings, Mapping, method)
            return answer

    return await proceed(await decided(commit, proceed, ask))


async def _around_tool_call(self: Any, call: ToolCall, proceed: ToolCallProceed) -> ToolResult:
    name: str = type(self).__qualname__
    if hasattr(self, "before_tool_call"):
        try:
            passed: ToolCall = await self.before_tool_call(call)
            check_call(passed, f"{name}.before_tool_call")
        except ToolBoundaryError as error:
            result = await proceed.refuse(error)
        else:
            result = await proceed(passed)
    else:
        result = await proceed()
    if hasattr(self, "after_tool_call"):
        result = await self.after_tool_call(result)
        check_result(result, f"{name}.after_tool_call")
    return result


def _around_request(self: Any, call: ModelCall, open_request: OpenRequest) -> Events:
    after = getattr(self, "after_request", None)

    def opened() -> Events:
        return open_request() if after is None else with_end_reported(call, open_request, after)

    return opened() if not hasattr(self, "before_request") else _after_asking(self, call, opened)


@asynccontextmanager
async def _after_asking(
    self: Any, call: ModelCall, opened: OpenResponse
) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
    await self.before_request(call)
    check_answer(call.request, ModelRequest, f"{type(self).__qualname__}.before_request")
    async with opened() as events:
        yield events


_SHORT_FORMS = (
    (("before_request", "after_request"), "around_request", _around_request),
    (("before_commit",), "around_commit", _around_commit),
    (("before_tool_call", "after_tool_call"), "around_tool_call", _around_tool_call),
)
