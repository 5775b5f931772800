"""A FastAPI service that answers within three seconds or says so: uvicorn fastapi_deadline:app."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

from fastapi import FastAPI, HTTPException

import nighthawk_async as nh
from nighthawk_async.parallel import DeadlineExceededError

MODEL, SECONDS = "openai-responses:gpt-5.4-nano", 3.0
Label = Literal["praise", "complaint", "question"]


@nh.natural_function
async def classify(text: str) -> Label:
    label: Label = nh.unset
    """natural
    Set <:label> to the kind of the customer's <text>.
    """
    return label


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    async with nh.run(MODEL, everywhere=True):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/label")
async def label(text: str) -> Label:
    try:
        async with nh.deadline(SECONDS):
            return await classify(text)
    except DeadlineExceededError as error:
        raise HTTPException(504, "no answer in time") from error
