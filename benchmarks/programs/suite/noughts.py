"""Noughts and crosses, with moves in words."""

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, aborts, goes_on
from ..chat import Chat
from ..program import Input, Program


class IllegalMoveError(Exception):
    """A move that the rules forbid."""


def has_won(board: list[list[str]], mark: str) -> bool:
    lines = [
        *board,
        *zip(*board, strict=True),
        [board[i][i] for i in range(3)],
        [board[i][2 - i] for i in range(3)],
    ]
    return any(all(field == mark for field in line) for line in lines)


@nh.natural_function
async def play(board: list[list[str]], moves: list[str]) -> str | None:
    for number, move in enumerate(moves):
        mark = "XO"[number % 2]
        """natural
        Put <mark> into the field of <board>, which is a list of rows, that <move> names. Free fields are " ".
        Raise IllegalMoveError if the field is not free or if there is no such field. Python looks for a
        winner.
        """
        if has_won(board, mark):
            return mark
    return None


class Field(BaseModel):
    is_on_board: bool
    row: int
    column: int


async def play_by_hand(chat: Chat, board: list[list[str]], moves: list[str]) -> str | None:
    for number, move in enumerate(moves):
        mark = "XO"[number % 2]
        field = await chat.ask(
            f"A board of three by three fields, as a list of rows: {board}\nWhich field does this move of "
            f"{mark} name? Rows and columns count from 0. Say so if there is no such field: {move}",
            Field,
        )
        if not field.is_on_board or board[field.row][field.column] != " ":
            raise IllegalMoveError(move)
        board[field.row][field.column] = mark
        if has_won(board, mark):
            return mark
    return None


def game(*moves: str) -> dict[str, object]:
    return {"board": [[" ", " ", " "] for _ in range(3)], "moves": list(moves)}


def put(row: int, column: int, mark: str) -> Answer:
    return goes_on(evaluations=[f"board[{row}].__setitem__({column}, {mark!r})"])


def field(row: int, column: int, *, is_on_board: bool = True) -> dict[str, object]:
    return {"is_on_board": is_on_board, "row": row, "column": column}


PROGRAM = Program(
    name="noughts",
    what="moves in words are made on a board that Python judges after each block",
    features=("objects", "loop", "exceptions"),
    natural=play,
    by_hand=play_by_hand,
    held=lambda given: list(given["board"]),
    checks={
        "the board is right": lambda ended: ["".join(row) for row in ended["board"]] == ended.expected[0],
        "each row is the same object": lambda ended: all(
            row is held for row, held in zip(ended["board"], ended.held, strict=True)
        ),
        "the winner is right": lambda ended: ended.result == ended.expected[1],
    },
    inputs=(
        Input(
            name="won",
            arguments=lambda: game(
                "The middle.",
                "Top left corner.",
                "Right above the middle.",
                "Bottom right.",
                "Straight below the centre.",
                "Top right, if I still may.",
            ),
            expected=(["OX ", " X ", " XO"], "X"),
            answers=(put(1, 1, "X"), put(0, 0, "O"), put(0, 1, "X"), put(2, 2, "O"), put(2, 1, "X")),
            replies=(field(1, 1), field(0, 0), field(0, 1), field(2, 2), field(2, 1)),
            wrong_answers=(
                (
                    put(1, 1, "X"),
                    put(0, 0, "O"),
                    put(0, 1, "X"),
                    put(2, 2, "O"),
                    goes_on(evaluations=["board.__setitem__(2, [' ', 'X', 'O'])"]),
                ),
                (put(1, 1, "X"), put(0, 0, "O"), put(1, 0, "X"), put(2, 2, "O"), put(1, 2, "X")),
                (
                    put(1, 1, "X"),
                    put(0, 0, "O"),
                    put(0, 1, "X"),
                    put(2, 2, "O"),
                    put(2, 0, "X"),
                    put(0, 2, "O"),
                ),
            ),
            wrong_replies=((field(1, 1), field(0, 0), field(1, 0), field(2, 2), field(1, 2)),),
        ),
        Input(
            name="taken",
            arguments=lambda: game(
                "Bottom left.", "The corner on the opposite side, top right.", "In the corner where I began."
            ),
            expected=(["  O", "   ", "X  "], None),
            raises=IllegalMoveError,
            answers=(put(2, 0, "X"), put(0, 2, "O"), aborts("bottom left is taken", "IllegalMoveError")),
            replies=(field(2, 0), field(0, 2), field(2, 0)),
            wrong_answers=((put(2, 0, "X"), put(0, 2, "O"), put(2, 0, "X")),),
            wrong_replies=((field(2, 0), field(0, 2), field(0, 0)),),
        ),
        Input(
            name="outside",
            arguments=lambda: game("Dead centre.", "Fourth row, first field."),
            expected=(["   ", " X ", "   "], None),
            raises=IllegalMoveError,
            answers=(put(1, 1, "X"), aborts("there is no fourth row", "IllegalMoveError")),
            replies=(field(1, 1), field(3, 0, is_on_board=False)),
            wrong_answers=((put(1, 1, "X"), put(2, 0, "O")),),
            wrong_replies=((field(1, 1), field(2, 0)),),
        ),
    ),
)
