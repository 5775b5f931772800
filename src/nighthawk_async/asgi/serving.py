"""What surrounds the application in a connection: a place, the run, and a scope of its own. Floor 5."""

from collections.abc import Awaitable, Callable

from ..parallel.task_current import find_node
from ..runtime.scope import scope
from .protocol import AsgiScope
from .service import Service
from .settings import Settings
from .work import Work

__all__ = ["find_path_template", "serve", "shown_path"]

_MAX_PATH_CHARACTERS = 200


async def serve(
    service: Service,
    settings: Settings,
    asgi_scope: AsgiScope,
    *,
    request_id: str,
    work: Work,
    call: Callable[[], Awaitable[object]],
) -> None:
    """Call the application when it is the connection's turn.

    Args:
        service: What the application serves with.
        settings: What the middleware was told.
        asgi_scope: The connection.
        request_id: The id of the scope.
        work: How it is made to end.
        call: Calls the application.

    Raises:
        RefusedError: The connection is not let in. The application was not called.
        Exception: Whatever the application raises.
    """
    client = None if settings.client_of is None else settings.client_of(asgi_scope)
    with service.in_progress(work):
        turn = service.admission.ask(client)
        try:
            await turn.wait()
            budget = None if settings.budget is None else settings.budget.fresh()
            async with service.extent(), scope(scope_id=request_id, budget=budget):
                work.task_node = find_node()
                await call()
        finally:
            service.admission.leave(turn)


def shown_path(asgi_scope: AsgiScope) -> str:
    """The path of a connection, for showing."""
    return str(asgi_scope.get("path", ""))[:_MAX_PATH_CHARACTERS]


def find_path_template(asgi_scope: AsgiScope) -> str | None:
    """The path that the application's framework has found to match, with its parameters as names.

    Args:
        asgi_scope: The connection, after the application was called.
    """
    template = asgi_scope.get("path_template") or getattr(asgi_scope.get("route"), "path", None)
    return template if isinstance(template, str) else None
