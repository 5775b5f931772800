"""What a page's `setup` comments can ask for. An example itself stays as a reader would write it.

Each fixture stands for the endpoint an example talks to: a scripted server on the loopback, named by the
environment variables that a reader would set.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import pytest

from nighthawk_async.testing import ModelReply, ModelServer, ReplyHandler
from nighthawk_async.types.messages import ToolCall


def tool_calls(*calls: tuple[str, dict[str, object]]) -> ModelReply:
    """A reply that calls tools: pairs of a tool's name and its arguments."""
    made = [ToolCall(id="", name=name, arguments=json.dumps(arguments)) for name, arguments in calls]
    return ModelReply(tool_calls=tuple(made))


@pytest.fixture
def serve(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Iterable[ModelReply] | ReplyHandler], ModelServer]]:
    """Start a scripted server that `openai-chat` models are sent to."""
    with ExitStack() as stack:

        def start(replies: Iterable[ModelReply] | ReplyHandler) -> ModelServer:
            server = stack.enter_context(ModelServer.in_thread(replies))
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-the-examples")
            return server

        yield start


@pytest.fixture
def model_that_averages(serve: Callable[[Iterable[ModelReply] | ReplyHandler], ModelServer]) -> None:
    """Sets `result` to the average of one, two, three and four, and ends the step, in one response."""
    assign = {"target_path": "result", "expression": "python_average([1, 2, 3, 4])"}
    serve([tool_calls(("nh_assign", assign), ("nh_outcome", {"kind": "pass"}))])
