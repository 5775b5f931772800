"""Inputs of a step: everything that the program gives it and that could change its answer.

What the author names in angle brackets counts, the values in the text of an f-string, and the arguments of
the function. Other local variables, the text itself, models, tools and skills do not count: they may be
changed while a run is in progress.
"""

import re
import types
from collections.abc import Iterable, Mapping
from typing import cast

from ..journal_ports import StepInputs
from ..natural.blocks import NaturalBlock, RenderedText
from ..natural.program import root_name
from ..prompt.objects import readable_fields
from .canonical_leaves import LEAVES
from .canonical_library import AddressedText
from .canonical_names import class_attribute
from .stable_digest import coarse_digest
from .step_context import StepContext

_CHOSEN = 0
"""The number of the blocks that are chosen at run time."""


def step_inputs(
    block: NaturalBlock,
    values: Mapping[str, object],
    python_locals: Mapping[str, object],
    literal: str | None,
    *,
    references: Iterable[str],
) -> StepInputs:
    """Return the inputs of a step.

    Args:
        block: The block.
        values: The variables that it can read.
        python_locals: The `locals()` at the block; of a block that is chosen at run time, what it is given.
        literal: The rendered text of an f-string block; None for a plain literal.
        references: The names and paths in angle brackets.
    """
    written = set(block.write_names).difference(block.read_names)
    paths = [path for path in references if root_name(path) in values and path not in written]
    whole = {path for path in paths if "." not in path}
    named = {path: _value_at(path, values) for path in paths if path in whole or root_name(path) not in whole}
    roots = set(map(root_name, named))
    arguments = python_locals if block.number == _CHOSEN else block.parameters
    others = {name: python_locals[name] for name in arguments if name in python_locals}
    others |= {name: values[name] for name in block.write_names if name in values}
    return StepInputs(
        named=named,
        read_names=tuple(name for name in block.read_names if name in named),
        unnamed={name: value for name, value in others.items() if name not in roots},
        text=_text_of(block, literal),
    )


def inputs_of(
    context: StepContext, block: NaturalBlock, python_locals: Mapping[str, object], literal: str | None
) -> StepInputs:
    """Return the inputs of a step that is prepared; see `step_inputs`."""
    values = {**context.referenced_globals, **context.initial_values, **context.step_locals}
    return step_inputs(block, values, python_locals, literal, references=context.references)


def unnamed_digests(values: Mapping[str, object]) -> dict[str, str]:
    """The digests of values that nobody names; see `coarse_digest`."""
    return {name: coarse_digest(value) for name, value in values.items()}


def _text_of(block: NaturalBlock, literal: str | None) -> dict[str, object]:
    """The values in the text of a block, by the interpolations as written."""
    if block.number == _CHOSEN and block.program is not None:
        return {"": (_without_addresses(block.program.text), block.program.denied_kinds)}
    if literal is None:
        return {}
    if not isinstance(literal, RenderedText):
        return {"": _without_addresses(literal)}
    texts: dict[str, object] = {}
    for written, value in zip(block.interpolations, literal.interpolated, strict=True):
        name = written if written not in texts else f"{written} #{len(texts) + 1}"
        texts[name] = _without_addresses(value)
    return texts


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=[>, )]|$)")


def _without_addresses(text: str) -> str:
    """A text without the addresses in memory that `repr` writes: each life has others."""
    return AddressedText(_ADDRESS.sub(" at 0x", text)) if _ADDRESS.search(text) else text


def _value_at(path: str, values: Mapping[str, object]) -> object:
    """The value at a dotted path, as the prompt reads it; the last object on the way where it sees none."""
    root, *segments = path.split(".")
    value = values[root]
    for segment in segments:
        found = _field(value, segment)
        if found is None:
            break
        (value,) = found
    return value


def _field(value: object, name: str) -> tuple[object] | None:
    """A field of an object, alone in a tuple; None where reading it would run code of the user's."""
    if isinstance(value, types.ModuleType):
        content = vars(value)
        return (content[name],) if name in content else None
    if issubclass(type(value), type):
        found = class_attribute(cast("type", value), name)
        return (found,) if type(found) in LEAVES and found is not None else None
    fields = readable_fields(value)
    return (fields[name],) if name in fields else None
