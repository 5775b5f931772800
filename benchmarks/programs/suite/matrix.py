"""A matrix is changed in place by instructions in words."""

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


@nh.natural_function
async def change_matrix(matrix: list[list[int]], instruction: str) -> list[int]:
    """natural
    Change <matrix>, a list of rows, in place as <instruction> says. Other parts of the program hold its rows:
    where rows change places, move the list objects; where numbers change, change them in their row.
    """
    return [sum(row) for row in matrix]


class Row(BaseModel):
    from_row: int
    numbers: list[int]


class Rows(BaseModel):
    rows: list[Row]


async def change_matrix_by_hand(chat: Chat, matrix: list[list[int]], instruction: str) -> list[int]:
    answer = await chat.ask(
        f"A matrix, as a list of rows: {matrix}\nChange it: {instruction}\nGive its rows as they are then, "
        "each with its numbers and the number, from 0, of the row that it was before.",
        Rows,
    )
    before = list(matrix)
    for place, row in enumerate(answer.rows):
        matrix[place] = before[row.from_row]
        matrix[place][:] = row.numbers
    return [sum(row) for row in matrix]


def three_rows(instruction: str) -> dict[str, object]:
    return {"matrix": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "instruction": instruction}


def rows(*rows: tuple[int, list[int]]) -> dict[str, object]:
    return {"rows": [{"from_row": from_row, "numbers": numbers} for from_row, numbers in rows]}


PROGRAM = Program(
    name="matrix",
    what="instructions in words change a matrix whose rows others hold",
    features=("objects",),
    natural=change_matrix,
    by_hand=change_matrix_by_hand,
    held=lambda given: list(given["matrix"]),
    checks={
        "the numbers are right": lambda ended: ended["matrix"] == ended.expected[0],
        "the rows are the same objects": lambda ended: all(
            row is ended.held[before] for row, before in zip(ended["matrix"], ended.expected[1], strict=True)
        ),
        "Python adds up what there is": lambda ended: ended.result == [sum(row) for row in ended.expected[0]],
    },
    inputs=(
        Input(
            name="swap and clear",
            arguments=lambda: three_rows(
                "Let the first and the last row change places, then set everything on the main diagonal to "
                "zero."
            ),
            expected=([[0, 8, 9], [4, 0, 6], [1, 2, 0]], [2, 1, 0]),
            answers=(
                goes_on(
                    evaluations=[
                        "matrix.reverse()",
                        "[row.__setitem__(i, 0) for i, row in enumerate(matrix)]",
                    ],
                ),
            ),
            replies=(rows((2, [0, 8, 9]), (1, [4, 0, 6]), (0, [1, 2, 0])),),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=["matrix.__setitem__(slice(None), [[0, 8, 9], [4, 0, 6], [1, 2, 0]])"]
                    ),
                ),
                (
                    goes_on(
                        evaluations=[
                            "[row.__setitem__(i, 0) for i, row in enumerate(matrix)]",
                            "matrix.reverse()",
                        ],
                    ),
                ),
            ),
            wrong_replies=((rows((0, [0, 8, 9]), (1, [4, 0, 6]), (2, [1, 2, 0])),),),
        ),
        Input(
            name="double",
            arguments=lambda: three_rows(
                "Double the middle column, and negate every odd number of the bottom row."
            ),
            expected=([[1, 4, 3], [4, 10, 6], [-7, 16, -9]], [0, 1, 2]),
            answers=(
                goes_on(
                    evaluations=[
                        "[row.__setitem__(1, row[1] * 2) for row in matrix]",
                        "matrix[2].__setitem__(slice(None), [-n if n % 2 else n for n in matrix[2]])",
                    ],
                ),
            ),
            replies=(rows((0, [1, 4, 3]), (1, [4, 10, 6]), (2, [-7, 16, -9])),),
            wrong_answers=((goes_on(evaluations=["[row.__setitem__(1, row[1] * 2) for row in matrix]"]),),),
            wrong_replies=((rows((0, [1, 4, 3]), (1, [4, 10, 6]), (2, [7, 16, 9])),),),
        ),
        Input(
            name="down",
            arguments=lambda: three_rows("Move each row one place down; the last one becomes the first."),
            expected=([[7, 8, 9], [1, 2, 3], [4, 5, 6]], [2, 0, 1]),
            answers=(goes_on(evaluations=["matrix.insert(0, matrix.pop())"]),),
            replies=(rows((2, [7, 8, 9]), (0, [1, 2, 3]), (1, [4, 5, 6])),),
        ),
    ),
)
