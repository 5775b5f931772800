"""Hooks by which runs add to tasks, mailboxes and progress reports, which do not know of runs."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from ..actors import BareTaskGroup, Mailbox, open_namespace
from ..actors.mailbox import in_order_of
from ..actors.ordering import install_orders
from ..parallel import TaskHooks, install_task_hooks, open_task_root
from ..parallel.task_current import find_node, find_task
from ..parallel.task_node import ArgumentDigest, ResourceKeeper
from ..types.execution import ExecutionRef
from ..types.usage import Usage
from ..values.stable_digest import argument_digest, digest_of_version_1
from .environment import find_environment, find_journal, find_orders


@contextmanager
def open_run_scope() -> Generator[None, None, None]:
    """Make the block a task of its own, and a scope for the names of mailboxes."""
    with open_task_root("run"), open_namespace("run"):
        yield


@asynccontextmanager
async def keeping_resources() -> AsyncGenerator[None, None]:
    """Let the task that the block is, a run for example, keep resources; they are closed at its end."""
    node = find_node()
    async with BareTaskGroup() as task_group, ResourceKeeper("task", node.id, task_group) as node.keeper:
        yield


def _find_usage() -> Usage | None:
    """Return the usage so far of the caller's innermost run or scope; None outside every run."""
    environment = find_environment()
    return None if environment is None else environment.usage_meter.usage


def _find_execution() -> ExecutionRef | None:
    environment = find_environment()
    return None if environment is None else environment.execution_ref


def _find_owner() -> object | None:
    """Return the task of the caller where the run has a journal."""
    environment = find_environment()  # not `find_journal`: many times in each step
    return None if environment is None or environment.journal is None else find_task()


def _digest_arguments(value: object) -> ArgumentDigest:
    """Return the digest of arguments by the rule of the active run."""
    journal = find_journal()
    if journal is None or journal.identity_version > 1:
        return argument_digest(value)
    return ArgumentDigest(digest_of_version_1(value), (value,))


def _make_mailbox(task_id: str) -> Mailbox[Any]:
    return in_order_of(Mailbox(name=task_id), f"mailbox of {task_id}")


install_orders(find_orders)
install_task_hooks(
    TaskHooks(
        make_mailbox=_make_mailbox,
        open_scope=partial(open_namespace, "task_group"),
        find_execution=_find_execution,
        find_usage=_find_usage,
        find_owner=_find_owner,
        digest=_digest_arguments,
        find_decisions=find_journal,
    )
)
