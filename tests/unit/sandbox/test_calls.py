"""Calls that code in a sandbox makes of the program: permissions, people, journals, natural functions."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from tests.unit.policies.human_handlers import approving, deciding

from .sandboxed import KINDS, Written

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS)]

sent: list[str] = []


class Mailer:
    """Sends mail."""

    def send(self, to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    async def send_later(self, to: str) -> str:
        await anyio.lowlevel.checkpoint()
        return self.send(to)


def look(name: str) -> str:
    """Look."""
    return name.upper()


@nh.natural_function
async def work(mailer: Mailer) -> str:
    """Work."""
    result = ""
    """natural
    Use <mailer> and <look>; set <:result>.
    """
    return result


TRY = """
try:
    mailer.send('ada')
except PermissionError as error:
    result = f'refused: {error}'
"""


async def test_a_denied_call_can_be_caught(kind: Any) -> None:
    sent.clear()
    written = Written(TRY, "mailer.send('bob')", "look('a')")
    careful = nh.permissions(deny="Mailer.send", default="allow")
    async with written.run(nh.Sandbox(kind=kind), permissions=careful):
        result = await work(Mailer())
    assert result.startswith("refused: Mailer.send is not permitted")
    assert written.answer(1)["error"]["kind"] == "oversight"
    assert (written.said(2), sent) == ("A", [])


async def test_people_are_asked_while_the_code_waits(kind: Any) -> None:
    sent.clear()
    code = (
        "import asyncio\n"
        "result = ' '.join(await asyncio.gather(*[mailer.send_later(n) for n in ['ada', 'bob']]))"
    )
    careful = nh.permissions(ask="Mailer.*", default="allow")
    handler = approving(["ada"])
    async with Written(code).run(nh.Sandbox(kind=kind), permissions=careful, human=handler):
        assert await work(Mailer()) == "sent to ada sent to bob"
    assert [each.arguments["to"] for each in handler.requests] == ["ada", "bob"]
    refusing = deciding(lambda request: request.deny("ada", "no"))
    async with Written(TRY).run(nh.Sandbox(kind=kind), permissions=careful, human=refusing):
        assert (await work(Mailer())).startswith("refused")
    assert sorted(sent) == ["ada", "bob"]


asked: list[str] = []


@nh.natural_function
async def inner(name: str) -> str:
    """Ask the model about a name."""
    asked.append(name)
    answer: str = ""
    """natural
    Set <:answer> for <name>.
    """
    return answer


@nh.once
async def charge(name: str) -> str:
    """Charge."""
    sent.append(name)
    return f"charged {name}"


@nh.natural_function
async def outer() -> list[str]:
    """Work with other natural functions."""
    found: list[str] = []
    """natural
    Set <:found> with <inner> and <charge>.
    """
    return found


def answering(code: str) -> nh.testing.ScriptedModel:
    def respond(request: nh.models.ModelRequest) -> Any:
        is_outer = "Set <:found>" in str(request.messages[0])
        is_first = len(request.messages) == 1
        if is_outer and is_first:
            return nh.testing.model_response(nh.testing.tool_call("nh_exec", statements=code))
        values = {} if is_outer else {"answer": "yes"}
        return nh.testing.model_response(nh.testing.tool_call("nh_outcome", kind="pass", **values))

    return nh.testing.ScriptedModel(respond)


class CrashError(Exception):
    """The end of a life."""


async def test_lives_of_a_run_make_each_call_once(kind: Any, tmp_path: Path) -> None:
    sent.clear()
    code = (
        "import asyncio\n"
        "found = await asyncio.gather(inner('a'), inner('b'), charge('c'), charge('d'))\n"
        "found = list(found) + [await charge('e')]"
    )
    model = answering(code)
    results: list[object] = []
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for life in (1, 2):
            try:
                async with nh.run(model, code=nh.Sandbox(kind=kind), journal=store, run_id="run-1"):
                    results.append(await outer())
                    if life == 1:
                        raise CrashError
            except CrashError:
                pass
    assert results == [["yes", "yes", "charged c", "charged d", "charged e"]] * 2
    assert sorted(sent) == ["c", "d", "e"]


async def test_sandboxed_steps_nest(kind: Any) -> None:
    code = "found = [await inner('a')]"
    async with nh.run(answering(code), code=nh.Sandbox(kind=kind)):
        assert await outer() == ["yes"]
