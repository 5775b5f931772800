"""Whatever tools do, whenever a step is cancelled: spans end within each other, and tell whose they are."""

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

import nighthawk_async as nh

from .agents import agent, compute, evaluate, execute
from .traces import Traces, traced

CALLS = st.sampled_from(
    [
        evaluate("1"),
        evaluate("1 / 0"),
        evaluate("inner()"),
        evaluate("[inner(), inner()][0]"),
        execute("await inner()\nawait inner()"),
        execute("await inner()\n1 / 0"),
        execute("import anyio\nasync with anyio.create_task_group() as tasks:\n    tasks.start_soon(inner)"),
    ]
)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(calls=st.lists(CALLS, max_size=4), points=st.integers(1, 120))
def test_every_span_ends_within_its_parent_and_stands_below_who_made_it(
    backend: str, calls: list[nh.models.ToolCall], points: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, traced(monkeypatch) as traces:
        anyio.run(_cancelled_after, agent(*calls), points, backend=backend)
    traces.check()
    _check_parents(traces)


async def _cancelled_after(executor: nh.AgentStepExecutor, points: int) -> None:
    async with nh.run(executor), anyio.create_task_group() as tasks:
        tasks.start_soon(compute)
        for _ in range(points):
            await checkpoint()
        tasks.cancel_scope.cancel()


def _check_parents(traces: Traces) -> None:
    """What may stand below what."""
    names = {span.context.span_id: span.name.split()[0] for span in traces.spans if span.context}
    allowed = {
        "nighthawk.run": {""},
        "nighthawk.step": {"nighthawk.run", "execute_tool"},
        "nighthawk.step_executor": {"nighthawk.step"},
        "invoke_agent": {"nighthawk.step_executor"},
        "chat": {"invoke_agent"},
        "execute_tool": {"invoke_agent"},
    }
    for span in traces.spans:
        parent = "" if span.parent is None else names[span.parent.span_id]
        assert parent in allowed[span.name.split()[0]], (span.name, parent)
