"""The whole service as one ASGI application: the endpoints, the dashboard, health."""

from collections.abc import Callable

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route, Router
from starlette.types import Message, Receive, Scope, Send

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard, NighthawkMiddleware
from nighthawk_async.observe import TaskTree

from .api import Api
from .settings import Settings
from .traces import show_traces

__all__ = ["TriageService", "create_app"]

MAX_RESPONSE_TOKENS = 4_000
"""A budget holds when it is known how long a response can be."""

REQUEST_TOKENS = 1_000_000
REQUEST_SECONDS = 300.0
GRACE_SECONDS = 10.0


class TriageService:
    """The service.

    Args:
        settings: What was chosen.
        at_end: Called when the service has ended, before the server hears of it; None for nothing.

    Attributes:
        tree: What goes on, for whoever wants to look.
        service: The endpoints, with everything that natural functions need around them.

    Raises:
        ConfigurationError: The model or the journal cannot be had.
        NighthawkError: The token of the dashboard is too short.
    """

    def __init__(self, settings: Settings, *, at_end: Callable[[], None] | None = None) -> None:
        self._settings = settings
        self._at_end = at_end
        self.tree = TaskTree()
        dashboard = Dashboard(self.tree, token=settings.dashboard_token, title="Triage service")
        configuration = nh.StepExecutorConfiguration(
            model=settings.model, model_settings={"max_tokens": MAX_RESPONSE_TOKENS}
        )
        self._store = None if settings.journal is None else nh.journal.open(settings.journal)
        self._api = Api(settings, self.tree)
        self.service = NighthawkMiddleware(
            self._api.app,
            model=nh.AgentStepExecutor.from_configuration(configuration=configuration),
            max_concurrent_requests=settings.max_requests,
            max_queued_requests=settings.max_waiting,
            request_timeout=REQUEST_SECONDS,
            grace_seconds=GRACE_SECONDS,
            request_budget=nh.budget(tokens=REQUEST_TOKENS),
            human=dashboard.human,
            tree=self.tree,
            journal=self._store,
        )
        # What people look at must answer when the service is busy, so it does not wait for a turn.
        self._router = Router(
            [Route("/health", self._health), Mount("/dashboard", dashboard)], default=self.service
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection, or go through the lifespan, which is the middleware's."""
        if scope["type"] != "lifespan":
            await self._router(scope, receive, send)
            return

        async def send_after_end(message: Message) -> None:
            """Uvicorn ends the process by the signal that it got, once it hears of the end."""
            if message["type"].startswith("lifespan.shutdown"):
                await anyio.to_thread.run_sync(self._end)
            await send(message)

        await self.service(scope, receive, send_after_end)

    def _end(self) -> None:
        if self._store is not None:
            self._store.close()
        if self._at_end is not None:
            self._at_end()

    async def _health(self, request: Request) -> JSONResponse:
        """Whether the service is up, and what it does at present."""
        run = self.service.run
        if run is None:
            return JSONResponse({"status": "starting or stopping"}, status_code=503)
        usage = run.usage_meter.usage
        return JSONResponse(
            {
                "status": "up",
                "model": self._settings.model,
                "requests_in_progress": self.service.requests_in_progress,
                "requests_waiting": self.service.requests_waiting,
                "investigations": self._api.investigations_running,
                "steps": run.usage_meter.steps,
                "model_requests": usage.requests,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
            }
        )


def create_app() -> TriageService:
    """The service as the environment wants it: `uvicorn --factory examples.triage_service.app:create_app`.

    Raises:
        NighthawkError: The environment says what cannot be.
    """
    settings = Settings.from_environment()
    return TriageService(settings, at_end=show_traces() if settings.shows_traces else None)
