"""The fold of policies: the way of a step, of its model requests and of its tool calls through them.

Each method of a policy is around those inside of it, outermost first. Innermost, the step begins and its
executor works, the request is sent, the call is carried out. A policy may answer instead, or refuse. The way
of a commit is in `commit`.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..errors import HookError, ToolBoundaryError
from ..ports import AttemptsSource, Model
from ..types.messages import Citation, ToolCall, ToolResult
from ..types.model import FinishReason, ModelEvent, ModelRequest
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from ..values.error_text import describe_error
from .commit import Proceed, check_answer, failing_as_policy
from .conclude import StepResult
from .tools import PROVIDED_TOOL_NAMES, Tool


class StepEnd(NamedTuple):
    """The end of a step.

    Args:
        outcome: The outcome, as the executor gave it.
        result: What is committed, returned or raised.
    """

    outcome: StepOutcome
    result: StepResult


Answer: TypeAlias = tuple[StepOutcome, Mapping[str, object]]
"""What an executor gives: the outcome of a step, and the values of its write bindings."""

Begin: TypeAlias = Callable[[], Awaitable[None]]
"""Called when a step begins."""


class AroundStep(Protocol):
    """A policy around steps."""

    async def around_step(self, step: Any, proceed: "StepProceed") -> StepEnd:
        """See `policy.Policy.around_step`."""
        ...


class StepProceed:
    """Goes on with a step: to the policies inside of one, and to the executor. It may be called once."""

    __slots__ = ("_fold", "_index")

    def __init__(self, fold: "StepFold", index: int) -> None:
        self._fold = fold
        self._index = index

    async def __call__(self) -> StepEnd:
        """Execute the step up to its commit.

        Returns:
            Its end; `around_step` returns it.

        Raises:
            HookError: It was called before, or after `around_step` has returned.
            Exception: Any error of the step.
        """
        return await self._fold.ask(self._index + 1)

    async def answer(self, outcome: StepOutcome, bindings: Mapping[str, object] | None = None) -> StepEnd:
        """End the step with an answer of the policy's own: policies inside and the executor are not asked.

        The answer is validated as that of an executor.

        Args:
            outcome: The outcome.
            bindings: The values of write bindings; None for none.

        Returns:
            The end of the step; `around_step` returns it.

        Raises:
            ExecutionError: The answer is not acceptable.
            HookError: The step has begun before.
        """
        return await self._fold.begin((outcome, {} if bindings is None else bindings))

    def at_begin(self, function: Begin) -> None:
        """Have a function called when the step begins, after those of policies outside of this one."""
        self._fold.at_begin.append(function)


class StepExecution(Protocol):
    """The execution of a step, inside of all policies."""

    def begin(self) -> None:
        """Begin the step: its actor serves in the current context."""
        ...

    async def execute(self, answer: Answer | None) -> StepEnd:
        """Execute the step, or conclude it with an answer."""
        ...


class StepFold:
    """The policies around one admitted step.

    Args:
        policies: Those that override `around_step`, outermost first.
        step: The step.
        execution: Its execution, inside of them.
    """

    __slots__ = ("_end", "_execution", "_may_begin", "_policies", "_step", "at_begin")

    def __init__(self, policies: Sequence[AroundStep], step: object, execution: StepExecution) -> None:
        self._policies = policies
        self._step = step
        self._execution = execution
        self._may_begin = True
        self._end: StepEnd | None = None
        self.at_begin: list[Begin] = []

    async def run(self) -> StepEnd:
        """Return the end of the step."""
        try:
            return await self.ask(0)
        finally:
            self._may_begin = False

    async def ask(self, index: int) -> StepEnd:
        """Ask the policy at an index, around those behind it."""
        if index == len(self._policies):
            return await self.begin(None)
        policy = self._policies[index]
        end = await policy.around_step(self._step, StepProceed(self, index))
        if self._end is None or end is not self._end:
            method = f"{type(policy).__qualname__}.around_step"
            what = f"{method} must return what `proceed()` gave"
            raise HookError(f"{what}, not {end!r}", hook=method).without_content(what)
        return end

    async def begin(self, answer: Answer | None) -> StepEnd:
        """Begin and execute the step, or conclude it with an answer."""
        if not self._may_begin:
            raise HookError(
                "A policy can call `proceed` once, inside `around_step`: it executes one step.",
                hook="proceed",
            )
        self._may_begin = False
        self._execution.begin()
        for function in self.at_begin:
            await function()
        self._end = await self._execution.execute(answer)
        return self._end


class RequestCharges(Protocol):
    """The charges of a request to budgets, from before it is sent until it has ended."""

    @property
    def pricing_error(self) -> Exception | None:
        """The error that prevented pricing it; None if it was priced."""
        ...

    def note(self, event: ModelEvent) -> None:
        """Record an event that arrived, in case no usage is reported."""
        ...

    def check_resend(self, attempts: AttemptsSource) -> bool | Awaitable[bool]:
        """See `ports.ResendCheck`."""
        ...

    def settle(self, reported: Usage | None, *, may_have_consumed: bool) -> Usage:
        """Charge what it consumed.

        Args:
            reported: The usage that the provider reported; None for none.
            may_have_consumed: Whether it may have consumed more than was reported.

        Returns:
            What was charged.
        """
        ...


class ModelCall:
    """One request to a model.

    Args:
        model: The model.
        request: The request.
        may_be_last: Whether its answer may end the step, so that it may take the last of a budget.
        place: Its place in a run with a journal; None without one.

    Attributes:
        request: The request as it is sent; policies may replace it before.
        charges: The charges to budgets; None for none.
        usage: Its usage; None if nothing was sent, or if the usage is unknown.
        finish_reason: Why the response ended; None if it did not end by itself.
        citations: The sources that the response cites.
        error: The error that it failed with; None if it did not fail.
        ending: The error with which its response was left, be it that of the request or of who reads it.
        was_sent: Whether no policy refused it or gave events of its own.
    """

    __slots__ = (
        "charges",
        "citations",
        "ending",
        "error",
        "finish_reason",
        "may_be_last",
        "model",
        "place",
        "request",
        "usage",
        "was_sent",
    )

    def __init__(
        self, model: Model, request: ModelRequest, *, may_be_last: bool = True, place: str | None = None
    ) -> None:
        self.model = model
        self.place = place
        self.request = request
        self.may_be_last = may_be_last
        self.charges: RequestCharges | None = None
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.citations: tuple[Citation, ...] = ()
        self.error: Exception | None = None
        self.ending: BaseException | None = None
        self.was_sent = False


class AroundRequest(Protocol):
    """A policy around model requests."""

    def around_request(self, call: ModelCall, open_request: "OpenRequest") -> "Events":
        """See `policy.Policy.around_request`."""
        ...


Events: TypeAlias = AbstractAsyncContextManager[AsyncIterator[ModelEvent]]
"""A response: its events, while it is entered."""

OpenResponse: TypeAlias = Callable[[], Events]
"""Opens a response."""


class OpenRequest:
    """Sends the request of a call, as it is then, through the policies inside; enter what it returns."""

    __slots__ = ("_call", "_index", "_policies", "_send")

    def __init__(
        self,
        policies: Sequence[AroundRequest],
        call: ModelCall,
        send: Callable[[OpenResponse | None], Events],
        index: int,
    ) -> None:
        self._policies = policies
        self._call = call
        self._send = send
        self._index = index

    def __call__(self) -> Events:
        """Return the response.

        Raises:
            HookError: A policy inside gave no async context manager, or made the request something else.
        """
        return response_through(self._policies, self._call, self._send, self._index)

    def answer(self, open_response: OpenResponse) -> Events:
        """Return a response of a cache: no policy inside and no model is asked, and no budget is charged.

        It is shown and traced as cached, and in a run with a journal it is recorded. Its usage is what its
        events report.

        Args:
            open_response: Opens it, unless the journal has it.
        """
        return self._send(open_response)


def response_through(
    policies: Sequence[AroundRequest],
    call: ModelCall,
    send: Callable[[OpenResponse | None], Events],
    index: int = 0,
) -> Events:
    """Return the response to a request as the policy at an index gives it, around those behind it.

    Args:
        policies: Those that override `around_request`, outermost first.
        call: The request.
        send: Sends it, or opens the response that it is given instead.
        index: The policy.

    Raises:
        HookError: A policy gave no async context manager, or made the request something else.
    """
    if index == len(policies):
        return send(None)
    policy, method = policies[index], f"{type(policies[index]).__qualname__}.around_request"
    check_answer(call.request, ModelRequest, method)
    events = policy.around_request(call, OpenRequest(policies, call, send, index + 1))
    if not hasattr(type(events), "__aenter__"):
        what = f"{method} gave {type(events).__name__} instead of an async context manager"
        raise HookError(what, hook=method)
    return events


@asynccontextmanager
async def with_end_reported(
    call: ModelCall, open_request: OpenResponse, after: Callable[[ModelCall], Awaitable[None]]
) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
    """Send a request, and report its end: its success or failure, but no cancellation and no refusal.

    Args:
        call: The request.
        open_request: Sends it.
        after: Called at the end. A `HookError` of it becomes a note on an error of the request; another error
            takes its place.
    """
    is_answered = False
    try:
        async with open_request() as events:
            is_answered = True
            yield events
    except Exception as error:
        if is_answered or call.was_sent:
            await _report_failure(call, error, after)
        raise
    await after(call)


async def _report_failure(
    call: ModelCall, error: Exception, after: Callable[[ModelCall], Awaitable[None]]
) -> None:
    try:
        await after(call)
    except Exception as raised:
        if error is call.ending and not isinstance(raised, HookError):
            raise
        error.add_note(str(raised) if isinstance(raised, HookError) else describe_error(raised))


@asynccontextmanager
async def replayed(events: Iterable[ModelEvent]) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
    """Give a response that is known already, for a policy that answers a request itself.

    Args:
        events: The events of the response, as another one gave them.
    """

    async def each() -> AsyncIterator[ModelEvent]:
        for event in events:
            yield event

    yield each()


ExecuteCall: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]
"""Carries out a call that is allowed."""


class AroundToolCall(Protocol):
    """A policy around tool calls."""

    async def around_tool_call(self, call: ToolCall, proceed: "ToolCallProceed") -> ToolResult:
        """See `policy.Policy.around_tool_call`."""
        ...


class ToolCallProceed(Proceed):
    """Goes on with a tool call: to the policies inside of one, and to the tool.

    Attributes:
        call: The call as it was given last.
    """

    __slots__ = ("_fold", "_index", "call")

    def __init__(self, fold: "ToolCallFold", index: int, call: ToolCall) -> None:
        super().__init__()
        self._fold = fold
        self._index = index
        self.call = call

    async def __call__(self, call: ToolCall | None = None) -> ToolResult:
        """Let the call be carried out, if no policy inside is against it.

        Args:
            call: The call, maybe another one, which is validated like those of the model; None for the one
                that was given.

        Returns:
            The result, or the failure, as policies inside show it.

        Raises:
            StepAbortedError: A policy inside ends the step.
            HookError: A policy inside failed.
        """
        with self.noting_failure():
            self.call = call = self.call if call is None else self._checked(call)
            return await self._fold.ask(self._index + 1, call)

    async def refuse(self, error: ToolBoundaryError) -> ToolResult:
        """Return the result of a call that is not carried out; the model sees the reason."""
        with self.noting_failure():
            return await self._fold.refuse(error)

    @property
    def tool(self) -> Tool | None:
        """The program's tool that the call is of; None for a tool of the runtime, or for none."""
        return self._fold.tool_of(self.call)

    @property
    def is_answer(self) -> bool:
        """Whether the call is the form in which policies see a value of an answer as data."""
        return self._fold.is_answer

    def _checked(self, call: ToolCall) -> ToolCall:
        check_call(call, self._fold.method_of(self._index))
        return call


class ToolCallFold:
    """The policies around one tool call.

    Args:
        policies: Those that override `around_tool_call`, outermost first.
        tools: The tools of the program.
        execute: Carries out the call.
        refuse: Returns the result of a call that is not carried out.
        is_answer: See `ToolCallProceed.is_answer`.
    """

    __slots__ = ("_execute", "_policies", "_tools", "is_answer", "refuse")

    def __init__(
        self,
        policies: Sequence[AroundToolCall],
        tools: Mapping[str, Tool],
        execute: ExecuteCall,
        refuse: Callable[[ToolBoundaryError], Awaitable[ToolResult]],
        *,
        is_answer: bool = False,
    ) -> None:
        self._policies = policies
        self._tools = tools
        self._execute = execute
        self.refuse = refuse
        self.is_answer = is_answer

    async def ask(self, index: int, call: ToolCall) -> ToolResult:
        """Ask the policy at an index, around those behind it; the outermost one has the index 0.

        Raises:
            HookError: A policy gave something else than a result.
            Exception: Any other error of a policy.
        """
        if index == len(self._policies):
            return await self._execute(call)
        policy, proceed = self._policies[index], ToolCallProceed(self, index, call)
        method = self.method_of(index)
        try:
            result = await policy.around_tool_call(call, proceed)
        except ToolBoundaryError as error:
            if error is proceed.failure:
                raise
            return await self.refuse(error)
        except Exception as error:
            if not self.is_answer or error is proceed.failure:
                raise
            with failing_as_policy(method):  # what accepts an answer shows some errors to the model
                raise
        check_result(result, method)
        return result

    def tool_of(self, call: ToolCall) -> Tool | None:
        """The program's tool that a call is of."""
        return None if call.name in PROVIDED_TOOL_NAMES else self._tools.get(call.name)

    def method_of(self, index: int) -> str:
        """The name of a policy's method, for errors."""
        return f"{type(self._policies[index]).__qualname__}.around_tool_call"


def check_call(call: ToolCall, method: str) -> None:
    """Check what a method of a policy gave as a call.

    Raises:
        HookError: It is none.
    """
    check_answer(call, ToolCall, method)
    check_answer(call.arguments, str, method)


def check_result(result: ToolResult, method: str) -> None:
    """Check what a method of a policy gave as a result.

    Raises:
        HookError: It is none.
    """
    check_answer(result, ToolResult, method)
    check_answer(result.content, tuple, method)
