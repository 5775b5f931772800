"""`nighthawk-async answer`: be the model; each request is a file, and so is its answer."""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from ..errors import ConfigurationError
from ..testing.answer_server import AnswerServer

_LOOK_SECONDS = 0.2


def answer(
    folder: Annotated[Path, typer.Argument(help="The folder of the files; made if it is not there.")],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any that is free.")] = 8400,
) -> None:
    """Sit in the model's chair: write the answers to a program's requests.

    Each request becomes two files, 0001.request.txt to be read and 0001.request.json as it was sent. The
    answer is 0001.answer.txt, a text, or 0001.answer.json, which may have a text and calls:
    {"text": "…", "tool_calls": [{"name": "…", "arguments": {…}}]}. Ctrl-C ends it.
    """
    try:
        anyio.run(_serve, folder, port)
    except OSError as error:
        raise ConfigurationError(f"{folder}, port {port}: {error}") from error


async def _serve(folder: Path, port: int) -> None:
    async with AnswerServer(folder, port=port) as server:
        typer.echo(
            f"base_url: {server.base_url}  (openai-chat:any, openai-responses:any, anthropic:any, google:any)"
        )
        told: set[int] = set()
        while True:
            for number in server.waiting:
                if number not in told:
                    told.add(number)
                    typer.echo(f"waiting: {folder / f'{number:04}.request.txt'}")
            await anyio.sleep(_LOOK_SECONDS)
