"""Mailboxes and actors. Plain AnyIO, knows nothing of language models."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .actor import Actor, ActorHandle as ActorHandle, OpenedActor as OpenedActor, open_actor
    from .actor_core import ActorStatistics as ActorStatistics, ActorStatus as ActorStatus
    from .errors import (
        ActorDeadlockError as ActorDeadlockError,
        ActorEndedError,
        ActorError,
        ActorInterruptedError as ActorInterruptedError,
        ChannelClosedError,
        JobCancelledError as JobCancelledError,
        JobRejectedError as JobRejectedError,
        LockReentryError as LockReentryError,
        LockTimeoutError,
        MailboxClosedError as MailboxClosedError,
        MailboxFullError,
        NameConflictError as NameConflictError,
        NamespaceLeftError as NamespaceLeftError,
        PoolClosedError as PoolClosedError,
        PoolDeadlockError as PoolDeadlockError,
        PoolError,
        PoolFullError,
        RestartLimitError,
        SupervisorDeadlockError as SupervisorDeadlockError,
        SupervisorEndedError as SupervisorEndedError,
        SupervisorError,
        UnknownMailboxError as UnknownMailboxError,
        UnknownNamespaceError as UnknownNamespaceError,
        UpdateConflictError as UpdateConflictError,
    )
    from .locks import acquire_gate, acquire_mutex, acquire_semaphore, gate, lock_statistics, mutex, semaphore
    from .locks_state import LockKind as LockKind, LockStatistics as LockStatistics, Permit as Permit
    from .mailbox import (
        Channel,
        Mailbox,
        MessageQueue as MessageQueue,
        QueueStatistics as QueueStatistics,
        Receiving as Receiving,
        Sending as Sending,
        find_mailbox,
        open_mailbox,
        send,
        try_send,
    )
    from .namespaces import (
        Family as Family,
        Namespace as Namespace,
        NamespaceKind as NamespaceKind,
        find_namespace,
        open_namespace,
    )
    from .pool import Pool, find_pool
    from .pool_job import JobHandle as JobHandle, JobStatus as JobStatus
    from .pool_jobs import PoolStatistics as PoolStatistics
    from .pool_queue import Backpressure as Backpressure, QueueOrder as QueueOrder
    from .selection import (
        Fired as Fired,
        NothingReady,
        Received,
        Select as Select,
        Sent as Sent,
        SourceClosed,
        TimedOut,
        select,
    )
    from .shared_maps import SharedMap as SharedMap, shared_map
    from .shared_state import (
        SharedCell as SharedCell,
        SharedStatistics as SharedStatistics,
        Snapshot as Snapshot,
        shared_cell,
    )
    from .supervisor import (
        ActorChild as ActorChild,
        Child as Child,
        Supervisor,
        SupervisorStatistics as SupervisorStatistics,
        SupervisorStatus as SupervisorStatus,
    )
    from .supervisor_child import (
        ChildState as ChildState,
        ChildStatus as ChildStatus,
        Restart,
        RestartMode as RestartMode,
        SupervisorEvent as SupervisorEvent,
        SupervisorEventKind as SupervisorEventKind,
        SupervisorEventStream as SupervisorEventStream,
    )
    from .supervisor_driver import SupervisedChild as SupervisedChild, current_child
    from .supervisor_state import SupervisorStrategy as SupervisorStrategy
    from .task_group import (
        BareTaskGroup as BareTaskGroup,
        ForeignCancellationError as ForeignCancellationError,
    )
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "actor": (
                "Actor",
                "ActorHandle",
                "OpenedActor",
                "open_actor",
            ),
            "actor_core": (
                "ActorStatistics",
                "ActorStatus",
            ),
            "errors": (
                "ActorDeadlockError",
                "ActorEndedError",
                "ActorError",
                "ActorInterruptedError",
                "ChannelClosedError",
                "JobCancelledError",
                "JobRejectedError",
                "LockReentryError",
                "LockTimeoutError",
                "MailboxClosedError",
                "MailboxFullError",
                "NameConflictError",
                "NamespaceLeftError",
                "PoolClosedError",
                "PoolDeadlockError",
                "PoolError",
                "PoolFullError",
                "RestartLimitError",
                "SupervisorDeadlockError",
                "SupervisorEndedError",
                "SupervisorError",
                "UnknownMailboxError",
                "UnknownNamespaceError",
                "UpdateConflictError",
            ),
            "locks": (
                "acquire_gate",
                "acquire_mutex",
                "acquire_semaphore",
                "gate",
                "lock_statistics",
                "mutex",
                "semaphore",
            ),
            "locks_state": (
                "LockKind",
                "LockStatistics",
                "Permit",
            ),
            "mailbox": (
                "Channel",
                "Mailbox",
                "MessageQueue",
                "QueueStatistics",
                "Receiving",
                "Sending",
                "find_mailbox",
                "open_mailbox",
                "send",
                "try_send",
            ),
            "namespaces": (
                "Family",
                "Namespace",
                "NamespaceKind",
                "find_namespace",
                "open_namespace",
            ),
            "pool": (
                "Pool",
                "find_pool",
            ),
            "pool_job": (
                "JobHandle",
                "JobStatus",
            ),
            "pool_jobs": ("PoolStatistics",),
            "pool_queue": (
                "Backpressure",
                "QueueOrder",
            ),
            "selection": (
                "Fired",
                "NothingReady",
                "Received",
                "Select",
                "Sent",
                "SourceClosed",
                "TimedOut",
                "select",
            ),
            "shared_maps": (
                "SharedMap",
                "shared_map",
            ),
            "shared_state": (
                "SharedCell",
                "SharedStatistics",
                "Snapshot",
                "shared_cell",
            ),
            "supervisor": (
                "ActorChild",
                "Child",
                "Supervisor",
                "SupervisorStatistics",
                "SupervisorStatus",
            ),
            "supervisor_child": (
                "ChildState",
                "ChildStatus",
                "Restart",
                "RestartMode",
                "SupervisorEvent",
                "SupervisorEventKind",
                "SupervisorEventStream",
            ),
            "supervisor_driver": (
                "SupervisedChild",
                "current_child",
            ),
            "supervisor_state": ("SupervisorStrategy",),
            "task_group": (
                "BareTaskGroup",
                "ForeignCancellationError",
            ),
        },
    )

__all__ = [
    "Actor",
    "ActorEndedError",
    "ActorError",
    "Channel",
    "ChannelClosedError",
    "LockTimeoutError",
    "Mailbox",
    "MailboxFullError",
    "NothingReady",
    "Pool",
    "PoolError",
    "PoolFullError",
    "Received",
    "Restart",
    "RestartLimitError",
    "SourceClosed",
    "Supervisor",
    "SupervisorError",
    "TimedOut",
    "acquire_gate",
    "acquire_mutex",
    "acquire_semaphore",
    "current_child",
    "find_mailbox",
    "find_namespace",
    "find_pool",
    "gate",
    "lock_statistics",
    "mutex",
    "open_actor",
    "open_mailbox",
    "open_namespace",
    "select",
    "semaphore",
    "send",
    "shared_cell",
    "shared_map",
    "try_send",
]
