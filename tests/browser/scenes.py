"""What goes on in a service, told to a tree without carrying anything out."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

from nighthawk_async.observation import NodeWriter, find_node_writer
from nighthawk_async.observe import TaskTree
from nighthawk_async.types.usage import Usage

__all__ = ["EVIL", "Control", "begin_triage", "many_requests", "writing_into"]

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


class Control:
    """Keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    def request_cancel(self, reason: str | None) -> None:
        self.asked.append(("cancel", reason))

    def steer(self, text: str) -> None:
        self.asked.append(("steer", text))

    def suspend(self) -> None:
        self.asked.append(("suspend", None))

    def resume(self) -> None:
        self.asked.append(("resume", None))


@contextmanager
def writing_into(tree: TaskTree) -> Iterator[NodeWriter]:
    """The node above everything."""
    with tree.recording():
        writer = find_node_writer()
        assert writer is not None
        yield writer


def begin_triage(top: NodeWriter, control: Control) -> NodeWriter:
    """A request whose step goes on, after another one that is finished; gives the step that goes on."""
    request = top.begin_child("request", "POST /tickets/{id}", attributes={"http.request.method": "POST"})
    function = request.begin_child("function", "triage", source="service:41")
    done = function.begin_child(
        "step", "classify", source="service:44", inputs={"ticket": EVIL, "label": "unknown"}
    )
    model = done.begin_child("model_request", "openai:gpt-5-mini")
    model.write("text", "A refund.")
    model.set_usage(Usage(requests=1, input_tokens=1840, output_tokens=96, cost=Decimal("0.00183")))
    model.end("completed")
    done.end("completed", outputs={"label": "refund"})
    failed = function.begin_child("step", "look up order", source="service:52")
    failed.begin_child("tool_call", "find_order", inputs={"order": 4711}).end(
        "failed", error=LookupError(f"no order {EVIL}")
    )
    failed.end("raised", error=ValueError("no such order"))
    step = function.begin_child(
        "step", "draft reply", source="service:58", inputs={"ticket": "Where is my money?"}, control=control
    )
    step.write("reasoning", "They are angry, and right.")
    step.write("text", "Dear customer, ")
    return step


def many_requests(top: NodeWriter, number: int) -> None:
    """Finished requests of five nodes each."""
    for index in range(number):
        request = top.begin_child("request", f"GET /classify/{index}")
        function = request.begin_child("function", "classify", source="service:12")
        step = function.begin_child("step", f"step {index}", source="service:14", inputs={"review": "***"})
        model = step.begin_child("model_request", "openai:gpt-5-mini")
        model.set_usage(Usage(requests=1, input_tokens=200 + index, output_tokens=12))
        model.end("completed")
        step.begin_child("tool_call", "nh_outcome").end("completed")
        error = TimeoutError("too slow") if index % 50 == 7 else None
        state = "failed" if error else "completed"
        step.end(state, error=error)
        function.end(state, error=error)
        request.end(state, error=error)
