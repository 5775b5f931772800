"""The endpoints that natural functions answer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import nighthawk_async as nh
from nighthawk_async.asgi import StreamResponse, stream_node, stream_response
from nighthawk_async.observe import NodeNotFoundError, TaskTree

from .bodies import Batch, Steering, Ticket, read_body
from .functions import triage, triage_all
from .investigations import Investigation, Investigations, TooManyInvestigationsError
from .settings import Settings

__all__ = ["Api"]


class Api:
    """The endpoints, and what they share.

    Args:
        settings: What was chosen.
        tree: The task tree, which shows how investigations go on.

    Attributes:
        app: The ASGI application.
    """

    def __init__(self, settings: Settings, tree: TaskTree) -> None:
        self._settings = settings
        self._tree = tree
        self._investigations: Investigations | None = None
        one = "/investigations/{id}"
        self.app = Starlette(
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _tell},
            routes=[
                Route("/tickets", self.classify, methods=["POST"]),
                Route("/batches", self.classify_batch, methods=["POST"]),
                Route("/investigations", self.begin_investigation, methods=["POST"]),
                Route(one, self.show_investigation, methods=["GET"]),
                Route(one, self.cancel_investigation, methods=["DELETE"]),
                Route(f"{one}/events", self.watch_investigation, methods=["GET"]),
                Route(f"{one}/steer", self.steer_investigation, methods=["POST"]),
            ],
        )

    @property
    def investigations_running(self) -> int:
        """How many investigations go on."""
        return 0 if self._investigations is None else self._investigations.running

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[None, None]:
        """Own the investigations, which end with it. The middleware has its run in force around this."""
        async with nh.open_tasks("investigations") as tasks:
            self._investigations = Investigations(tasks, max_running=self._settings.max_investigations)
            yield
            self._investigations = None

    async def classify(self, request: Request) -> JSONResponse:
        """One ticket. When the client leaves, the model is no longer asked."""
        ticket = await read_body(request, Ticket)
        return JSONResponse((await triage(ticket.text)).model_dump())

    async def classify_batch(self, request: Request) -> StreamResponse:
        """Many tickets at once, with their progress as server-sent events."""
        tickets = (await read_body(request, Batch)).tickets
        return stream_response(lambda: triage_all(tickets, self._settings.max_batch_steps), name="batch")

    async def begin_investigation(self, request: Request) -> JSONResponse:
        """A step that goes on after the response."""
        ticket = await read_body(request, Ticket)
        if self._investigations is None:
            raise HTTPException(
                503, "Investigations need a server that tells the application of its lifespan."
            )
        try:
            investigation = await self._investigations.begin(ticket.text)
        except TooManyInvestigationsError:
            raise HTTPException(
                503, "Too many investigations go on; try again later.", headers={"retry-after": "5"}
            ) from None
        location = {"location": f"{request.scope.get('root_path', '')}/investigations/{investigation.id}"}
        return JSONResponse(_as_json(investigation), status_code=202, headers=location)

    async def show_investigation(self, request: Request) -> JSONResponse:
        """How it goes, and at last the reply."""
        return JSONResponse(_as_json(self._find(request)))

    async def watch_investigation(self, request: Request) -> StreamResponse:
        """The same as server-sent events, with the text of the model as it comes."""
        investigation = self._find(request)
        assert investigation.node_id is not None, "ids are given out when it has begun"
        try:
            return stream_node(investigation.node_id, tree=self._tree, profile="full")
        except NodeNotFoundError:
            raise HTTPException(
                410, "The investigation is over, and how it went is no longer kept."
            ) from None

    async def steer_investigation(self, request: Request) -> JSONResponse:
        """Tell the model something at its next turn."""
        investigation = self._find(request)
        steering = await read_body(request, Steering)
        try:
            investigation.handle.steer(steering.message)
        except nh.parallel.TaskError:
            raise HTTPException(409, f"There is no step to steer: it is {investigation.status}.") from None
        return JSONResponse(_as_json(investigation), status_code=202)

    async def cancel_investigation(self, request: Request) -> JSONResponse:
        """End it, down to the request to the model. Doing so again changes nothing."""
        investigation = self._find(request)
        investigation.handle.cancel("its client has cancelled it")
        await investigation.handle.wait_ended()
        return JSONResponse(_as_json(investigation))

    def _find(self, request: Request) -> Investigation:
        known = self._investigations
        investigation = None if known is None else known.find(request.path_params["id"])
        if investigation is None:
            raise HTTPException(404, "There is no such investigation, or no more.")
        return investigation


def _as_json(investigation: Investigation) -> dict[str, str | None]:
    return {"id": investigation.id, "status": investigation.status, "reply": investigation.reply}


async def _tell(request: Request, error: Exception) -> JSONResponse:
    """A problem as the middleware tells those of the library."""
    assert isinstance(error, HTTPException)
    problem = {"status": error.status_code, "detail": error.detail}
    return JSONResponse(
        problem,
        status_code=error.status_code,
        headers={**(error.headers or {}), "content-type": "application/problem+json"},
    )
