"""Memories in blocks and in durable runs: permissions, sealed parts, and one effect in all lives."""

import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.memory.engine import Engine
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

from .conftest import Opened
from .test_erasure import files_with

pytestmark = pytest.mark.anyio


@nh.natural_function
async def answer(mail: str, memory: nh.Memory) -> str:
    """natural
    Answer <mail> with what <memory> knows.
    """
    return ""


async def carried_out(statements: str, memory: nh.Memory, **scope: Any) -> str:
    """What the model sees of some code of its own."""
    model = ScriptedModel(
        [
            model_response(tool_call("nh_exec", statements=statements)),
            model_response(tool_call("nh_outcome", kind="return", return_value="ok")),
        ]
    )
    executor = nh.AgentStepExecutor.from_model(model)
    async with nh.run(executor), nh.scope(**scope):
        assert await answer("hello", memory) == "ok"
    return str(model.requests[-1].messages[-1])


async def test_a_block_uses_what_permissions_allow(in_file: Opened) -> None:
    memory = in_file()
    await memory.store("refunds", "Refunds take three days.")
    shown = await carried_out("await memory.recall('refunds')", memory)
    assert "words" in shown
    assert "refunds: Refunds take three days." in shown
    await carried_out("await memory.store('ann', 'likes mail', tags=['customer'])", memory)
    assert await memory.get("ann") is not None
    rules = nh.permissions(default="allow", deny=["Memory.erase", "Memory.store", "Facts.*"])
    for code in (
        "await memory.erase(key='ann')",
        "m = memory\nawait m.erase(key='ann')",
        "await memory.store('x', 'y')",
        "await memory.facts.store('claim', 'x')",
    ):
        assert "is not permitted" in await carried_out(code, memory, permissions=rules), code
    assert [event.operation for event in await memory.history()] == ["store", "store"]
    for rule, code in (
        ("Memory.store", "await memory.facts.store('claim', 'x')"),
        ("Memory.store", "f = memory.facts\nawait f.store('claim', 'x')"),
        ("Memory.recall", "await memory.facts.recall('x')"),
        ("Memory.forget", "await memory.facts.invalidate(claim='x')"),
        ("*.store", "await memory.facts.store('claim', 'x')"),
    ):
        same = nh.permissions(default="allow", deny=[rule])
        assert "is not permitted" in await carried_out(code, memory, permissions=same), (rule, code)
    only = nh.permissions(default="deny", allow=["Memory.store"])  # what is allowed is named by itself
    code = "await memory.facts.store('claim', 'x')"
    assert "is not permitted" in await carried_out(code, memory, permissions=only)
    assert [event.operation for event in await memory.history()] == ["store", "store"]
    asked = nh.permissions(default="deny", allow=["Memory.recall"])
    assert "three days" in await carried_out("await memory.recall('refunds')", memory, permissions=asked)


async def test_code_cannot_reach_what_decides(in_file: Opened, tmp_path: Path) -> None:
    memory = in_file()
    await memory.store("refunds", "Refunds take three days.")
    for code in (
        "memory._engine",
        "memory.namespace = 'other'",
        "memory.__exit__()",
        "memory.close()",
        "memory.open",
        "vars(memory)['namespace'] = 'other'\nmemory.store.__func__",
        "setattr(memory, 'namespace', 'other')",
        "object.__setattr__(memory, '_engine', 1)",
        "type(memory)(1, 2)",
        "memory.recall.__globals__",
        "memory.facts._engine",
        "memory.store.__wrapped__",
    ):
        assert "is_error=True" in await carried_out(code, memory), code
    assert memory.namespace == "support"
    assert list(vars(memory)) == ["namespace"]
    vars(memory)["namespace"] = "other"  # a copy for prompts, which decides nothing
    assert [r.key for r in await memory.recall("refunds")] == ["refunds"]
    with pytest.raises(AttributeError, match="cannot be changed"):
        memory.namespace = "other"


def executor() -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(ScriptedModel([]))


async def test_effects_happen_once_in_all_lives_and_what_is_read_is_recorded(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened()
    await memory.store("old", "old words")
    lives: list[list[Any]] = []

    async def program() -> None:
        seen: list[Any] = []
        lives.append(seen)
        seen.append(await memory.recall("words"))
        seen.append(await memory.store("new", {"words": 1}))
        seen.append(await memory.facts.store("claim", "many words"))
        seen.append(await memory.recall("words"))
        seen.append(await memory.get("new"))
        seen.append(await memory.forget(key="old"))
        seen.append(await memory.erase(key="new"))
        seen.append(await memory.summarize())
        seen.append([event.operation for event in await memory.history()])

    def interrupting(name: str) -> Callable[..., Awaitable[Any]]:
        """A method that is interrupted once, when it has taken effect and nobody knows."""
        method = getattr(Engine, name)
        interrupted: list[str] = []

        async def interrupted_method(self: Engine, chosen: Any, event: str) -> Any:
            result = await method(self, chosen, event)
            if event not in interrupted:
                interrupted.append(event)
                raise ConnectionError("interrupted")
            return result

        return interrupted_method

    for name in ("store", "forget", "erase"):
        monkeypatch.setattr(Engine, name, interrupting(name))
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db", strict=True) as store:
        for _ in range(4):
            with pytest.raises(ConnectionError):
                async with nh.run(executor(), journal=store, run_id="run"):
                    await program()
        async with nh.run(executor(), journal=store, run_id="run"):
            await program()
        operations = ["store", "store", "store", "forget", "erase"]
        operations.remove("store")  # that of the record that was erased
        assert lives[-1][-1] == operations
        monkeypatch.undo()
        await memory.store("later", "later words")
        async with nh.run(executor(), journal=store, run_id="run"):
            await program()
    assert lives[-1] == lives[-2]
    assert pickle.loads(pickle.dumps(lives[-1][3])) == lives[-1][3]
    for life in lives[:-1]:
        assert life == lives[-1][: len(life)]
    assert [event.operation for event in await memory.history()] == [*operations, "store"]


async def test_another_memory_does_not_get_recorded_answers(in_file: Opened, tmp_path: Path) -> None:
    first, second = in_file("one"), in_file("two")
    await first.store("a", "words")
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db", strict=True) as store:
        async with nh.run(executor(), journal=store, run_id="run"):
            assert len(await first.recall("words")) == 1
        with pytest.raises(nh.journal.JournalDivergenceError):
            async with nh.run(executor(), journal=store, run_id="run"):
                await second.recall("words")


async def test_records_are_encrypted_with_the_keys_of_the_journal(tmp_path: Path) -> None:
    async def embed(texts: Any) -> list[list[float]]:
        return [[1.0, 2.0] for _ in texts]

    path = tmp_path / "memory.db"
    keys: dict[str, bytes | str] = {"a": b"a" * 32}
    with nh.memory.open(path, keys=keys, embed=embed, embed_hint="e") as memory:
        await memory.store("ann", "lives in zanzibar", tags=["customer"])
        await memory.forget(tag="customer")
        await memory.store("ann", "lives in zanzibar", tags=["customer"])
        found = await memory.recall("zanzibar")
        assert found[0].parts["lexical"] == 1.0
        assert await memory.recall("zanzibar", tags=["Customer"]) == found
    assert [files_with(tmp_path, text) for text in ("zanzibar", "customer")] == [[], []]
    with nh.memory.open(path) as memory, pytest.raises(nh.journal.JournalKeyError, match="'a'"):
        await memory.recall("zanzibar")
    both = {"b": b"b" * 32, **keys}
    with nh.journal.open(f"sqlite:///{path}", keys=both, active_key="b") as store:
        store.reencrypt()
        store.verify()
    with nh.memory.open(path, keys={"b": b"b" * 32}, embed_hint="e") as memory:
        assert await memory.recall("zanzibar") == found
        assert (await memory.erase(query="zanzibar")).versions == 2
