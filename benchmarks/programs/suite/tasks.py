"""Tasks are marked as done from what people say in a meeting."""

import json
from dataclasses import asdict, dataclass

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Task:
    title: str
    owner: str | None = None
    is_done: bool = False


@nh.natural_function
async def update_tasks(tasks: list[Task], note: str) -> int:
    """natural
    Bring <tasks> up to date with the <note> of a meeting: change the tasks in place, and neither add nor
    remove one. A task that nobody works on has the owner None; a task that is done keeps its owner.
    """
    return sum(task.is_done for task in tasks)


class NewState(BaseModel):
    title: str
    owner: str | None
    is_done: bool


class NewStates(BaseModel):
    tasks: list[NewState]


async def update_tasks_by_hand(chat: Chat, tasks: list[Task], note: str) -> int:
    states = await chat.ask(
        f"Tasks: {json.dumps([asdict(task) for task in tasks])}\nNote of a meeting: {note}\nGive the new "
        "state of each task that changes, with its title as it is. A task that nobody works on has the "
        "owner null; a task that is done keeps its owner.",
        NewStates,
    )
    by_title = {task.title: task for task in tasks}
    for state in states.tasks:
        task = by_title[state.title]
        task.owner, task.is_done = state.owner, state.is_done
    return sum(task.is_done for task in tasks)


def board(note: str) -> dict[str, object]:
    tasks = [
        Task("Login page", "Ada"),
        Task("Dark mode", "Bo"),
        Task("Import of orders"),
        Task("Backups", "Cy"),
    ]
    return {"tasks": tasks, "note": note}


def state(title: str, owner: str | None, is_done: bool) -> dict[str, object]:
    return {"title": title, "owner": owner, "is_done": is_done}


PROGRAM = Program(
    name="tasks",
    what="the note of a meeting changes tasks that others hold too",
    features=("objects",),
    natural=update_tasks,
    by_hand=update_tasks_by_hand,
    held=lambda given: list(given["tasks"]),
    checks={
        "the tasks are up to date": lambda ended: ended["tasks"] == ended.expected,
        "they are the same objects": lambda ended: (
            [id(task) for task in ended["tasks"]] == [id(task) for task in ended.held]
        ),
        "Python counts what is done": lambda ended: (
            ended.result == sum(task.is_done for task in ended.expected)
        ),
    },
    inputs=(
        Input(
            name="done",
            arguments=lambda: board(
                "Ada: the login page is finished. Cy is still fighting with the backups."
            ),
            expected=[
                Task("Login page", "Ada", is_done=True),
                Task("Dark mode", "Bo"),
                Task("Import of orders"),
                Task("Backups", "Cy"),
            ],
            answers=(goes_on(evaluations=["setattr(tasks[0], 'is_done', True)"]),),
            replies=({"tasks": [state("Login page", "Ada", True)]},),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=["tasks.__setitem__(0, type(tasks[0])('Login page', 'Ada', True))"],
                    ),
                ),
                (goes_on(),),
            ),
            wrong_replies=(({"tasks": [state("Login page", "Ada", True), state("Backups", "Cy", True)]},),),
        ),
        Input(
            name="handed over",
            arguments=lambda: board(
                "Bo is ill, so nobody does the dark mode for now. Dee has taken the import of orders."
            ),
            expected=[
                Task("Login page", "Ada"),
                Task("Dark mode"),
                Task("Import of orders", "Dee"),
                Task("Backups", "Cy"),
            ],
            answers=(
                goes_on(
                    evaluations=["setattr(tasks[1], 'owner', None)", "setattr(tasks[2], 'owner', 'Dee')"],
                ),
            ),
            replies=({"tasks": [state("Dark mode", None, False), state("Import of orders", "Dee", False)]},),
            wrong_answers=((goes_on(evaluations=["setattr(tasks[2], 'owner', 'Dee')"]),),),
            wrong_replies=(({"tasks": [state("Import of orders", "Dee", False)]},),),
        ),
        Input(
            name="all of one",
            arguments=lambda: board("Cy did the backups, and Ada's job as well. Dark mode can wait."),
            expected=[
                Task("Login page", "Ada", is_done=True),
                Task("Dark mode", "Bo"),
                Task("Import of orders"),
                Task("Backups", "Cy", is_done=True),
            ],
            answers=(
                goes_on(
                    evaluations=[
                        "[setattr(task, 'is_done', True) for task in tasks if task.owner in ('Ada', 'Cy')]"
                    ],
                ),
            ),
            replies=({"tasks": [state("Login page", "Ada", True), state("Backups", "Cy", True)]},),
        ),
    ),
)
