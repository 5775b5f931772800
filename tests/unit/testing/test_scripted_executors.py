"""Scripts of steps say what they take: responses, and mappings with the values of write bindings."""

from collections.abc import Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, ScriptedExecutor, pass_response, return_response


@nh.natural_function
def label_of(text: str) -> str:
    label = ""
    urgent = False
    """natural
    Set <:label> to a label of <text>, and <:urgent> to whether it is urgent, or return a short text.
    """
    return f"{label} {urgent}"


def ask(executor: CallbackExecutor) -> str:
    with nh.run(executor):
        return label_of("mail")


def test_a_mapping_assigns_write_bindings() -> None:
    script = ScriptedExecutor(
        [{"label": "a", "urgent": True}, return_response("text")], default_response={"label": "b"}
    )
    assert [ask(script) for _ in range(3)] == ["a True", "mail", "b False"]
    assert script.remaining_responses == 0
    assert (
        ask(CallbackExecutor(lambda call: {"label": call.step_locals["text"], "urgent": True})) == "mail True"
    )

    async def answer(call: object) -> dict[str, object]:
        await checkpoint()
        return {"label": "c"}

    assert ask(CallbackExecutor(answer)) == "c False"
    with pytest.raises(nh.ExecutionError, match=r"'lable' cannot be committed; .* are: label, urgent"):
        ask(ScriptedExecutor([{"lable": "a"}]))


# Without the types that refuse them before.
Scripted: Any = ScriptedExecutor
Callback: Any = CallbackExecutor
ADVICE = r'Write {"name": value} to assign write bindings, return_response\("expression"\) to return a value'


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scripted({"label": "a"}), "square brackets"),
        (lambda: Scripted(pass_response()), "square brackets"),
        (lambda: Scripted("a"), f"list of responses, not str. {ADVICE}"),
        (lambda: Scripted(3), f"not int. {ADVICE}"),
        (
            lambda: Scripted([{"a": 1}, 3]),
            f"Response 2 is 3, which is no response of a step. {ADVICE}",
        ),
        (lambda: Scripted([], default_response="a"), f"default_response is 'a', .*{ADVICE}"),
        (lambda: Scripted([None]), f"Response 1 is None, .*{ADVICE}"),
        (lambda: Scripted([ValueError("bad")]), r"write raise_response\('bad', 'ValueError'\)"),
        (lambda: Scripted([nh.executors.PassStepOutcome()]), r"StepResponse\(outcome=…\)"),
        (lambda: Scripted([{1: 2}]), "Response 1 has the key 1; "),
        (lambda: Callback([{"a": 1}]), "ScriptedExecutor"),
        (lambda: ask(Callback(lambda call: 3)), f"The answer of the callback is 3, .*{ADVICE}"),
    ],
)
def test_something_else_is_refused_with_what_to_write(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(nh.ConfigurationError, match=words):
        make()
