"""A service with progress as server-sent events."""

# uvicorn --factory fastapi_progress:make_app
from typing import Literal

from fastapi import FastAPI

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.asgi import NighthawkMiddleware, StreamResponse, stream_response

MODEL = "openai-responses:gpt-5.4-nano"
Label = Literal["praise", "complaint", "question"]


@nh.natural_function
async def classify(text: str) -> Label:
    label: Label = nh.unset
    """natural
    Set <:label> to the kind of the customer's <text>.
    """
    return label


def make_app() -> NighthawkMiddleware:
    """Make the application; one run serves all requests."""
    api = FastAPI()

    @api.post("/label")
    async def label(text: str) -> Label:
        return await classify(text)

    @api.post("/labels", response_model=None)
    async def labels(texts: list[str]) -> StreamResponse:
        return stream_response(lambda: parallel.map(classify, texts))

    return NighthawkMiddleware(api, model=MODEL)
