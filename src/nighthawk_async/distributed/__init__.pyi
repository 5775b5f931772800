"""Exports of `nighthawk_async.distributed`. Each name is loaded when it is first used."""

from .errors import (
    ArgumentChangedError,
    CrossingError,
    DistributedError,
    LocalOnlyError,
    RemoteCallError,
    WorkerLostError,
    WorkerStartError,
)
from .processes import Processes
from .ray_workers import RayWorkers
from .worker import worker_name
from .workers import Workers

__all__ = [
    "ArgumentChangedError",
    "CrossingError",
    "DistributedError",
    "LocalOnlyError",
    "Processes",
    "RayWorkers",
    "RemoteCallError",
    "WorkerLostError",
    "WorkerStartError",
    "Workers",
    "worker_name",
]
