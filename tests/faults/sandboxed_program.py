"""A program whose code of a model asks for approvals from inside of a sandbox; see its test."""

from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.sandbox.settings import SandboxKind
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

CODE = "said = []\nfor who in orders:\n    said.append(pay(who, 2 * 7))\nsaid"


def main(folder: str, backend: str, kind: SandboxKind) -> Any:
    """One life of the run."""

    @nh.once
    def pay(who: str, amount: int) -> str:
        with (Path(folder) / "paid.txt").open("a") as file:
            file.write(f"{who} {amount}\n")
        return f"paid {who}"

    @nh.natural_function
    async def settle(orders: list[str]) -> str:
        """natural
        Pay each of <orders> with <pay>. Return what was said.
        """

    def next_turn(request: nh.models.ModelRequest) -> Any:
        last = request.messages[-1]
        if not isinstance(last, nh.models.ToolResultsMessage):
            return model_response(tool_call("nh_exec", statements=CODE))
        return model_response(
            tool_call("nh_outcome", kind="return", return_value=str(last.results[0].content[0]))
        )

    async def one_life() -> str:
        with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
            async with nh.run(
                ScriptedModel(next_turn),
                journal=store,
                run_id="run-1",
                park_after=0,
                human=store.people(),
                permissions=nh.permissions(ask=[pay], default="allow"),
                code=nh.Sandbox(kind=kind),
            ):
                return await settle(["ada", "bob"])

    try:
        return anyio.run(one_life, backend=backend)
    except nh.journal.RunParked:
        return None
