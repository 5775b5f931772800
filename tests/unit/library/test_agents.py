"""The agents of the library: natural functions that work in a workspace."""

from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async import library
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

PATCH = "--- a/shop.py\n+++ b/shop.py\n@@ -1,1 +1,1 @@\n-def total(price):\n+def total(costs):\n"


@pytest.fixture
def workspace(tmp_path: Path) -> library.Workspace:
    (tmp_path / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    return library.Workspace(tmp_path, writable=True, sandbox="auto")


def looks(expression: str) -> Any:
    return model_response(tool_call("nh_eval", expression=expression))


def sets(name: str, expression: str) -> Any:
    value = tool_call("nh_assign", target_path=name, expression=expression)
    return model_response(value, tool_call("nh_outcome", kind="pass"))


async def test_a_patch_that_does_not_fit_is_written_anew(
    workspace: library.Workspace, tmp_path: Path
) -> None:
    model = ScriptedModel(
        [
            looks("workspace.patch(patch)"),
            sets("changed", "workspace.patch(patch.replace('(price)', '(prices)'))"),
        ]
    )
    async with nh.run(model):
        assert await library.apply_patch(workspace, PATCH) == ["shop.py"]
    assert (tmp_path / "shop.py").read_text() == "def total(costs):\n    return sum(prices)\n"
    assert "and the patch expects" in str(model.requests[1].messages[-1])


async def test_a_patch_without_a_place_is_refused(workspace: library.Workspace) -> None:
    failure = tool_call(
        "nh_outcome", kind="raise", raise_error_type="PatchError", raise_message="no such line"
    )
    async with nh.run(ScriptedModel([model_response(failure)])):
        with pytest.raises(library.PatchError, match="no such line"):
            await library.apply_patch(workspace, PATCH)


async def test_a_question_is_answered_with_sources(workspace: library.Workspace) -> None:
    answer = {"answer": "It sums.", "sources": ["shop.py:2"]}
    model = ScriptedModel([looks("workspace.search('sum')"), sets("finding", repr(answer))])
    async with nh.run(model):
        finding = await library.research(workspace, "What does total do?")
    assert finding == library.Finding(answer="It sums.", sources=["shop.py:2"])


async def test_a_review_gives_remarks(workspace: library.Workspace) -> None:
    remarks = [{"place": "shop.py:2", "text": "an empty list gives 0"}]
    model = ScriptedModel([looks("await workspace.shell('echo 1 failed')"), sets("remarks", repr(remarks))])
    async with nh.run(model):
        found = await library.review(workspace, PATCH)
    assert found == [library.Remark(place="shop.py:2", text="an empty list gives 0")]
    assert "1 failed" in str(model.requests[1].messages[-1])
    assert "+def total(costs)" in str(model.requests[0].messages[0])
