"""The agents: natural functions that call themselves and each other."""

from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async import library


class Task(BaseModel):
    """A change that one worker makes.

    Args:
        files: The files that it is about.
        goal: What is wrong there, and what has to be different.
    """

    files: list[str]
    goal: str


class Verdict(BaseModel):
    """The opinion of a reviewer.

    Args:
        is_accepted: Whether the change can be merged as it is.
        remarks: What has to be different first.
    """

    is_accepted: bool
    remarks: list[str] = []


class CannotRepairError(Exception):
    """The tests cannot be made to pass by changing the code that they test."""


@nh.natural_function
async def investigate(workspace: library.Workspace, question: str) -> str:
    """Answer a question about the code, from its files."""
    answer: str = nh.unset
    """natural
    Find the answer to <question> in the files of <workspace>: search, then read what matters. Set <:answer>
    to it, with the places that prove it, such as `shop/cart.py:12`.
    """
    return answer


@nh.natural_function
async def plan(workspace: library.Workspace, failure: str, remarks: list[str]) -> list[Task]:
    """Divide a repair among workers."""
    tasks: list[Task] = nh.unset
    """natural
    The tests of <workspace> fail: see <failure>, the end of their output, and <remarks> on what was tried so
    far. Read the code, and ask <investigate> where that takes long. Set <:tasks> to the changes that make the
    tests pass, one for each cause. They are made at the same time, so no file is in two of them. The tests
    stay as they are: raise a <CannotRepairError> that gives the reason if it is the tests that are wrong.
    """
    return tasks


@nh.natural_function
async def work(workspace: library.Workspace, task: Task) -> str:
    """Make a change."""
    cause: str = nh.unset
    """natural
    Do <task> in <workspace>, and nothing else. Read before you change. When an edit or a patch is refused,
    the error names the line that differs: correct it. Tests stay as they are. Ask <investigate> about other
    parts of the code. If the task has parts that do not depend on each other, give each to <work>, as a
    smaller <Task>. Set <:cause> to what was wrong, in a sentence.
    """
    return cause


@nh.natural_function
async def review(workspace: library.Workspace, change: str) -> Verdict:
    """Judge a change that makes the tests pass."""
    verdict: Verdict = nh.unset
    """natural
    <change> is in <workspace> already, and its tests pass. Read the code around it, and ask <investigate> who
    else depends on it. Set <:verdict>: accept it if it removes the cause, for all inputs and not only for
    those of the tests, and if nothing in it is unneeded. If not, say what has to be different.
    """
    return verdict


RULES = nh.permissions(
    allow=[
        *(library.Workspace.read, library.Workspace.find, library.Workspace.search, library.Workspace.shell),
        *(library.Workspace.edit, library.Workspace.create, library.Workspace.patch),
        *(investigate, work, Task, Verdict),
    ],
    default="deny",
)
"""The calls that the models' code may make; all else is denied, such as `open` or another `Workspace(…)`."""
