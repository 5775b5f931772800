"""One clock for all threads and event loops of the process. Floor 5.

A transformer may be shared by functions on several event loops and in threads.
"""

from ..runtime.stopwatch import shared_time

__all__ = ["shared_time"]
