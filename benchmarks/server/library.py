"""The scripts that were registered, as answers ready to be sent. No input or output here."""

from dataclasses import dataclass

import msgspec

from .answer import Answer
from .chat import ChatRequest, chat_answers
from .responses import ResponsesRequest, responses_answers
from .script import read_script

__all__ = ["Due", "Library", "RefusedError"]


class RefusedError(Exception):
    """A request that no answer fits; it says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An answer and when it is due.

    Args:
        answer: The answer.
        first_byte_seconds: How long after the request it begins.
        after_calls_seconds: How long it takes from there to its end.
        held_seconds: How long it is held back once its calls are complete, as an answer in one piece is until
            the model has ended.
    """

    answer: Answer
    first_byte_seconds: float
    after_calls_seconds: float = 0.0
    held_seconds: float = 0.0


_PROTOCOLS = {
    "/chat/completions": (msgspec.json.Decoder(ChatRequest), chat_answers),
    "/responses": (msgspec.json.Decoder(ResponsesRequest), responses_answers),
}


class Library:
    """What is answered below `/scripts/NAME/v1`."""

    def __init__(self) -> None:
        self._answers: dict[str, list[tuple[Due, Due]]] = {}

    def put(self, name: str, body: bytes) -> None:
        """Register a script, in place of one of that name.

        Args:
            name: Its name.
            body: Its JSON.

        Raises:
            msgspec.MsgspecError: It is no script.
        """
        script = read_script(body)
        goes_on = script.after_calls_seconds > 0
        for path, (_, answers_of) in _PROTOCOLS.items():
            turns = [
                answers_of(turn, index, goes_on=goes_on, fields=script.response_fields)
                for index, turn in enumerate(script.turns)
            ]
            self._answers[f"/scripts/{name}/v1{path}"] = [
                (
                    Due(
                        answer=whole,
                        first_byte_seconds=script.first_byte_seconds,
                        held_seconds=script.after_calls_seconds if streamed.later else 0.0,
                    ),
                    Due(
                        answer=streamed,
                        first_byte_seconds=script.first_byte_seconds,
                        after_calls_seconds=script.after_calls_seconds if streamed.later else 0.0,
                    ),
                )
                for whole, streamed in turns
            ]

    def find(self, path: str, body: bytes) -> Due:
        """What answers a request.

        Args:
            path: The request's path.
            body: Its body.

        Raises:
            RefusedError: No script is registered there, the body is no request, or the script has ended.
        """
        turns = self._answers.get(path)
        if turns is None:
            raise RefusedError(404, f"nothing is registered at {path}")
        decoder, _ = _PROTOCOLS[path[path.index("/v1") + 3 :]]
        try:
            request = decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise RefusedError(400, f"the body is no request: {error}") from None
        if request.turn >= len(turns):
            raise RefusedError(400, f"the script has {len(turns)} turns, and the request asks for one more")
        return turns[request.turn][request.stream]
