"""Small changes of a program between two lives: what people do to a program that has runs in progress."""

import random
from collections.abc import Callable

import msgspec

from .programs import ADDED, WORDS, Branch, Call, Node, Program, Shared, Value, iterate, parts_of


def _replaced(node: Node, number: int, change: Callable[[Node], Node]) -> Node:
    if node.number == number:
        return change(node)
    if isinstance(node, Call):
        return node
    return msgspec.structs.replace(node, parts=tuple(_replaced(part, number, change) for part in node.parts))


def changed(program: Program, chance: random.Random, kinds: list[str]) -> Program:
    """The program with one change: another argument, a look-alike, another order, a call more or less."""
    nodes = list(iterate(program.root))
    calls = [node for node in nodes if isinstance(node, Call)]
    branches = [node for node in nodes if isinstance(node, Branch | Shared) and len(node.parts) > 1]
    call = chance.choice(calls)
    word = chance.choice([word for word in WORDS if word != call.value.word])
    kind = chance.choice([kind for kind in kinds if kind != call.value.kind] or kinds)

    def with_value(value: Value) -> Node:
        return _replaced(program.root, call.number, lambda node: msgspec.structs.replace(node, value=value))

    def with_parts(reorder: Callable[[list[Node]], list[Node]]) -> Node:
        branch = chance.choice(branches)
        parts = tuple(reorder(list(parts_of(branch))))
        return _replaced(program.root, branch.number, lambda node: msgspec.structs.replace(node, parts=parts))

    ways: list[Callable[[], Node]] = [
        lambda: with_value(Value(call.value.kind, word)),
        lambda: with_value(Value(kind, call.value.word)),
    ]
    if branches:
        ways += [
            lambda: with_parts(lambda parts: parts[::-1]),
            lambda: with_parts(lambda parts: parts[1:]),
            lambda: with_parts(lambda parts: [Call("pay", Value("text", "new"), ADDED), *parts]),
        ]
    return msgspec.structs.replace(program, root=chance.choice(ways)())
