"""Natural functions that workers import, and the model of their steps, which crosses by its name."""

import logging

import anyio

import nighthawk_async as nh
from nighthawk_async.agent.task import texts_of
from nighthawk_async.observation import find_node_writer
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import (
    ModelEvent,
    ResponseFinished,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)


@nh.natural_function
async def rate(text: str) -> int:
    """natural
    Read <text>, look it up with <look_up> and set <:stars> to the number of stars.
    """
    return stars


async def look_up(text: str) -> str:
    """Look a text up."""
    await anyio.lowlevel.checkpoint()
    return f"{text}: known"


def answer(request: nh.models.ModelRequest) -> ModelResponse:
    """Look the text up first, then rate it."""
    usage = nh.Usage(requests=1, input_tokens=100, output_tokens=10)
    if len(request.messages) < 3:
        look = tool_call("nh_eval", expression="look_up(text)")
        return model_response(look, text="Let me look it up.", usage=usage)
    done = tool_call("nh_outcome", kind="pass", bindings={"stars": 4})
    return model_response(done, text="Four stars.", usage=usage)


def agent() -> nh.AgentStepExecutor:
    """An executor whose model answers with `answer`."""
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))


@nh.natural_function
async def listen(text: str) -> str:
    """natural
    Read <text>, pause with <pause> until you are told something, and set <:said> to that.
    """
    return said


async def pause(turn: int) -> int:
    """Wait for a short time."""
    await anyio.sleep(0.005)
    return turn


def answer_what_is_said(request: nh.models.ModelRequest) -> ModelResponse:
    """Pause until a message arrives, and answer with it."""
    told = [text for message in request.messages[1:] for text in texts_of(message) if "louder" in text]
    if not told:
        return model_response(tool_call("nh_eval", expression=f"pause({len(request.messages)})"))
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"said": told[-1]}))


def listener() -> nh.AgentStepExecutor:
    """An executor whose steps end when they are steered with the word `louder`."""
    return nh.AgentStepExecutor.from_model(
        model=ScriptedModel(answer_what_is_said),
        configuration=nh.StepExecutorConfiguration(model="scripted:model", max_turns=100_000),
    )


async def fail(text: str) -> None:
    """Fail below a node."""
    await anyio.lowlevel.checkpoint()
    async with nh.open_tasks("inside") as tasks:
        await tasks.start(raise_error, text)


async def raise_error(text: str) -> None:
    """Raise."""
    await anyio.lowlevel.checkpoint()
    raise ValueError(text)


async def show(password: str, text: str) -> int:
    """Start a task whose inputs are shown."""
    async with nh.open_tasks("shown") as tasks:
        return await tasks.start(length, {"password": password, "text": text})


async def length(values: dict[str, str]) -> int:
    """Return the length of a text."""
    await anyio.lowlevel.checkpoint()
    return len(values["text"])


async def work_until_asked() -> str:
    """Work until the task is asked to end."""
    while not nh.parallel.cancel_requested():  # noqa: ASYNC110
        await anyio.sleep(0.001)
    return "asked to end"


async def current_ids() -> tuple[str, str, str | None, str, str | None]:
    """Return the ids of the current task."""
    await anyio.lowlevel.checkpoint()
    task = nh.parallel.current_task()
    return task.id, task.name, task.parent_id, task.root_id, task.run_id


def log_things(text: str) -> None:
    """Log at several levels, with an error and with a value of the caller's."""
    logger = logging.getLogger("tests.shop")
    logger.debug("not wanted: %s", text)
    logger.info("sold %s", text, extra={"shelf": 7, "object": object()})
    logging.getLogger("tests.quiet").error("not wanted")
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("cannot sell")


def log_often(text: str) -> None:
    """Log a large record."""
    logging.getLogger("tests.shop").info("%s", text)


async def speak(words: int) -> None:
    """Write words into the transcript, one by one."""
    node = find_node_writer()
    assert node is not None
    for _ in range(words):
        node.write("text", "word ")
        await anyio.lowlevel.checkpoint()


@nh.natural_function
async def rate_and_return(text: str) -> int:
    """natural
    Rate <text>, and return the number of stars.
    """
    raise AssertionError


def answer_with_return(request: nh.models.ModelRequest) -> ModelResponse:
    """Return five stars."""
    return model_response(tool_call("nh_outcome", kind="return", return_expression="2 + 3"))


def returning_agent() -> nh.AgentStepExecutor:
    """An executor whose model answers with `answer_with_return`."""
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer_with_return))


def answer_in_pieces(request: nh.models.ModelRequest) -> ModelResponse:
    """Stream the arguments of the outcome in pieces."""
    arguments = '{"kind": "pass", "bindings": {"said": "one two three"}}'
    events: list[ModelEvent] = [ToolCallStarted(index=0, id="call_0", name="nh_outcome")]
    events += [ToolCallArgumentsDelta(index=0, fragment=each) for each in arguments]
    call = ToolCall(id="call_0", name="nh_outcome", arguments=arguments)
    events += [ToolCallCompleted(index=0, call=call), ResponseFinished(reason="tool_calls")]
    return ModelResponse(events=tuple(events))


def piecemeal_agent() -> nh.AgentStepExecutor:
    """An executor whose model streams its answer in pieces."""
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer_in_pieces))


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    return result


@nh.natural_function
def rate_blocking(text: str) -> int:
    """natural
    Read <text>, look it up with <look_up> and set <:stars> to the number of stars.
    """
    return stars


async def rate_on_loop(text: str) -> int:
    """Call a synchronous natural function on the event loop, which it blocks."""
    await anyio.lowlevel.checkpoint()
    return rate_blocking(text)
