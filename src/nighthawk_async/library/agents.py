"""Natural functions that work in a workspace: they apply a patch, answer a question, review a change."""

from pydantic import BaseModel, Field

from ..functions import natural_function
from ..types.unset import unset
from .errors import PatchError as PatchError  # which a block raises
from .workspace import Workspace


class Finding(BaseModel):
    """The answer to a question on the files of a workspace."""

    answer: str
    sources: list[str] = Field(description="the places that prove it, such as src/shop.py:12")


class Remark(BaseModel):
    """A remark of a reviewer."""

    place: str = Field(description="such as src/shop.py:12")
    text: str


@natural_function
async def apply_patch(workspace: Workspace, patch: str) -> list[str]:
    """Apply a patch with a model, also when it does not fit the files exactly.

    Args:
        workspace: The workspace, a writable one.
        patch: The patch, in a form that `Workspace.patch` takes, or in any other that a reader understands.

    Returns:
        The paths of the files that were changed.

    Raises:
        PatchError: The files have nothing that the patch could change.
    """
    changed: list[str] = unset
    """natural
    Apply <patch> to <workspace>, and set <:changed> to the paths that its method returns. If the patch does
    not fit, read the files, and write it anew so that it makes the same change. Raise a <PatchError> if what
    it changes is not there.
    """
    return changed


@natural_function
async def research(workspace: Workspace, question: str) -> Finding:
    """Answer a question from the files of a workspace, with sources.

    Args:
        workspace: The workspace; a read-only one is enough.
        question: The question.
    """
    finding: Finding = unset
    """natural
    Answer <question> from the files of <workspace>: find and search, then read what matters. Set <:finding>
    to the answer, with the places that prove it.
    """
    return finding


@natural_function
async def review(workspace: Workspace, change: str) -> list[Remark]:
    """Review a change that a workspace has already, and run its tests.

    Args:
        workspace: The workspace, writable if its tests write.
        change: The change, as a unified diff.

    Returns:
        The remarks, the worst first; empty if there is nothing to say.
    """
    remarks: list[Remark] = unset
    """natural
    Review <change>, which is in <workspace> already. Read the code around it, run its tests in the shell, and
    set <:remarks> to what its author should know, worst first. Change nothing.
    """
    return remarks
