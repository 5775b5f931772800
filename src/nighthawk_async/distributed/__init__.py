"""Calls on other processes and machines: placements for `on=`."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "errors": (
                "ArgumentChangedError",
                "CrossingError",
                "DistributedError",
                "LocalOnlyError",
                "RemoteCallError",
                "WorkerLostError",
                "WorkerStartError",
            ),
            "processes": ("Processes",),
            "ray_workers": ("RayWorkers",),
            "worker": ("worker_name",),
            "workers": ("Workers",),
        },
    )

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
