"""Attributes that frameworks expect of a response besides being an ASGI application.

FastAPI takes an endpoint's value for a response only when it is one of Starlette's. This library depends on
neither, so the class that is both is made when Starlette is there.
"""

import sys
from functools import lru_cache
from typing import Any, cast

__all__ = ["find_response_class"]


def find_response_class(own: type) -> type:
    """A class of one's own, or the one that is Starlette's response too when Starlette is loaded.

    Args:
        own: The class. Its `raw_headers` are the headers, as in Starlette.
    """
    responses = sys.modules.get("starlette.responses")
    base: type | None = getattr(responses, "Response", None)
    return own if base is None else _join(own, base)


@lru_cache(maxsize=8)
def _join(own: type, base: type) -> type:
    async def serve(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await cast("Any", own).__call__(self, scope, receive, send)
        if self.background is not None:  # what FastAPI's endpoints have put off
            await self.background()

    members = {
        "__call__": serve,
        "__doc__": own.__doc__,
        "__module__": own.__module__,
        "background": None,
        "media_type": None,
        "status_code": 200,
    }
    return type(own.__name__, (own, base), members)
