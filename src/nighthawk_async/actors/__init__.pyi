"""What `nighthawk_async.actors` exports. Each name is loaded when it is first used."""

from .actor import Actor, OpenedActor, open_actor
from .actor_core import ActorStatistics, ActorStatus
from .actor_handle import ActorHandle
from .channel import Channel
from .errors import (
    ActorDeadlockError,
    ActorEndedError,
    ActorError,
    ActorInterruptedError,
    ChannelClosedError,
    JobCancelledError,
    JobRejectedError,
    LockReentryError,
    LockTimeoutError,
    MailboxClosedError,
    MailboxFullError,
    NameConflictError,
    NamespaceLeftError,
    PoolClosedError,
    PoolDeadlockError,
    PoolError,
    PoolFullError,
    RestartLimitError,
    SupervisorDeadlockError,
    SupervisorEndedError,
    SupervisorError,
    UnknownMailboxError,
    UnknownNamespaceError,
    UpdateConflictError,
)
from .foreign_cancellation import ForeignCancellationError
from .locks import acquire_gate, acquire_mutex, acquire_semaphore, gate, lock_statistics, mutex, semaphore
from .locks_state import LockKind, LockStatistics, Permit
from .mailbox import Mailbox, find_mailbox, open_mailbox, send, try_send
from .message_queue import MessageQueue, QueueStatistics, Receiving, Sending
from .namespaces import Family, Namespace, NamespaceKind, find_namespace, open_namespace
from .pool import Pool, find_pool
from .pool_job import JobHandle, JobStatus
from .pool_jobs import PoolStatistics
from .pool_queue import Backpressure, QueueOrder
from .restart import Restart, RestartMode
from .select import Fired, NothingReady, Received, Select, Sent, SourceClosed, TimedOut, select
from .shared_cells import SharedCell, shared_cell
from .shared_maps import SharedMap, shared_map
from .shared_state import SharedStatistics, Snapshot
from .supervisor import ActorChild, Child, Supervisor, SupervisorStatistics, SupervisorStatus
from .supervisor_child import (
    ChildState,
    ChildStatus,
    SupervisorEvent,
    SupervisorEventKind,
    SupervisorEventStream,
)
from .supervisor_runners import SupervisedChild, current_child
from .supervisor_state import SupervisorStrategy
from .task_group import BareTaskGroup

__all__ = [
    "Actor",
    "ActorChild",
    "ActorDeadlockError",
    "ActorEndedError",
    "ActorError",
    "ActorHandle",
    "ActorInterruptedError",
    "ActorStatistics",
    "ActorStatus",
    "Backpressure",
    "BareTaskGroup",
    "Channel",
    "ChannelClosedError",
    "Child",
    "ChildState",
    "ChildStatus",
    "Family",
    "Fired",
    "ForeignCancellationError",
    "JobCancelledError",
    "JobHandle",
    "JobRejectedError",
    "JobStatus",
    "LockKind",
    "LockReentryError",
    "LockStatistics",
    "LockTimeoutError",
    "Mailbox",
    "MailboxClosedError",
    "MailboxFullError",
    "MessageQueue",
    "NameConflictError",
    "Namespace",
    "NamespaceKind",
    "NamespaceLeftError",
    "NothingReady",
    "OpenedActor",
    "Permit",
    "Pool",
    "PoolClosedError",
    "PoolDeadlockError",
    "PoolError",
    "PoolFullError",
    "PoolStatistics",
    "QueueOrder",
    "QueueStatistics",
    "Received",
    "Receiving",
    "Restart",
    "RestartLimitError",
    "RestartMode",
    "Select",
    "Sending",
    "Sent",
    "SharedCell",
    "SharedMap",
    "SharedStatistics",
    "Snapshot",
    "SourceClosed",
    "SupervisedChild",
    "Supervisor",
    "SupervisorDeadlockError",
    "SupervisorEndedError",
    "SupervisorError",
    "SupervisorEvent",
    "SupervisorEventKind",
    "SupervisorEventStream",
    "SupervisorStatistics",
    "SupervisorStatus",
    "SupervisorStrategy",
    "TimedOut",
    "UnknownMailboxError",
    "UnknownNamespaceError",
    "UpdateConflictError",
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
