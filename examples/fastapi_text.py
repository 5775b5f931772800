"""A FastAPI service that streams a text while the model writes it."""

# uvicorn fastapi_text:app; curl -N 'localhost:8000/explain?question=Why+is+the+sky+blue'
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"


@nh.natural_function
async def explain(question: str) -> str:
    text: str = nh.unset
    """natural
    Set <:text> to an answer to <question>, in three paragraphs.
    """
    return text


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    async with nh.run(MODEL, everywhere=True):
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/explain")
async def stream_explanation(question: str) -> StreamingResponse:
    return StreamingResponse(nh.stream_text(explain, question), media_type="text/plain; charset=utf-8")
