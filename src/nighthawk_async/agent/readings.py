"""Answers and calls that are not written as they should be, read where they can mean one thing. No I/O.

The answer of a model and the arguments of its calls are brought into the form that the strict parser takes;
what can mean several things stays as it is, and is refused with its reason. The text of the model itself is
never changed: conversations, recordings and journals hold what it wrote.

All forms are listed in `docs/steps.md`; `answers="strict"` reads none of them.
"""

import ast
import difflib
import json
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from ..kernel.context import StepContext, compile_expression
from ..kernel.tool_calls import excess_of
from ..kernel.tools import Tool
from ..types.json import is_json_object
from ..types.messages import ToolCall
from ..types.outcomes import OUTCOME_KINDS, Reading
from ..values.loose_values import loose_value
from ..wire.json_text import NOT_JSON, decode_json
from ..wire.loose_json import NotOneMeaningError, read_object, read_value, unfenced
from .answer_form import FIELDS, SHARED_FIELDS, AnswerForm

_ALL_FIELDS = frozenset({*SHARED_FIELDS, *(name for names in FIELDS.values() for name in names)})
_MARGINS = (" ", "\t", "`")
_CODE_FIELDS = ("return_expression", "raise_expression")
_ANGLED = re.compile(r"<?:?\s*+(?P<name>[A-Za-z_]\w*+)\s*+>?", re.ASCII)
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_CARRYING_WORDS = frozenset(
    {"answer", "arguments", "assign", "assignments", "binding", "bindings", "data", "error", "exception"}
    | {"expression", "expressions", "kind", "outcome", "output", "outputs", "raise", "result", "results"}
    | {"return", "returns", "set", "value", "values", "variable", "variables"}
)
"""Words in names of fields that may hold a part of the answer."""

_SIMILAR = 0.8
"""The likeness from which on an unknown name may be another one, misspelt."""

_MOST_EXTRA_FIELDS = 100
"""A limit because each unknown name is compared with all known ones."""


def read_answer(text: str, form: AnswerForm, readings: list[Reading]) -> dict[str, Any]:
    """The fields of an answer, in the form that the strict parser takes.

    Args:
        text: The text of the answer.
        form: The ways to answer the block.
        readings: How it was read is appended; nothing for an answer as it should be.

    Raises:
        NotOneMeaningError: There is no answer in the text, or it can mean several things.
    """
    data = read_object(text, readings)
    is_among_words = "sentence" in readings
    fields = read_fields(data, form, readings)
    if is_among_words and "no_kind" in readings:
        raise NotOneMeaningError  # an object that the text speaks of
    return fields


def read_fields(data: Mapping[str, Any], form: AnswerForm, readings: list[Reading]) -> dict[str, Any]:
    """The fields of an answer, in the form that the strict parser takes.

    Args:
        data: The decoded answer.
        form: The ways to answer the block.
        readings: How it was read is appended; nothing for an answer as it should be.

    Raises:
        NotOneMeaningError: They can mean several things.
    """
    fields = dict(data)
    if set(fields) == {"result"}:
        fields = dict(_object(fields["result"], readings))
    _read_kind(fields, readings)
    _read_bindings(fields, form, readings)
    _read_expressions(fields, form, readings)
    if fields.get("kind") is None:
        fields["kind"] = _only_kind(fields, form)
        readings.append("no_kind")
    _leave_out_extra_fields(fields, form, readings)
    _read_values(fields, form, readings)
    return fields


def _object(value: object, readings: list[Reading]) -> Mapping[str, Any]:
    """An object, or the one that a text holds as JSON."""
    if isinstance(value, str):
        value = read_value(value, readings)
        readings.append("json_text")
    if not is_json_object(value):
        raise NotOneMeaningError
    return value


def _read_kind(fields: dict[str, Any], readings: list[Reading]) -> None:
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind in OUTCOME_KINDS:
        return
    plain = kind.strip().casefold()
    if plain in OUTCOME_KINDS:
        fields["kind"] = plain
        readings.append("kind")


def _read_bindings(fields: dict[str, Any], form: AnswerForm, readings: list[Reading]) -> None:
    """Bring the values of all variables into the field `bindings`, by their plain names."""
    given: object = fields.get("bindings")
    if isinstance(given, str):
        given = _object(given, readings)
    named = {**form.bindings, **form.expressions}
    beside = [
        (name, key)
        for key, value in fields.items()
        if key not in _ALL_FIELDS
        and (name := _variable(key, named)) is not None
        and (value is not None or name in form.nullable)
    ]
    if not is_json_object(given):
        if given is not None or not beside:
            return
        given = {}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key if key in named else _variable(key, named) or key
        if name != key:
            readings.append("binding_name")
        _put(values, name, value)
    for name, key in beside:
        readings.append("binding_place")
        if name != key:
            readings.append("binding_name")
        _put(values, name, fields.pop(key))
    fields["bindings"] = values


def _read_expressions(fields: dict[str, Any], form: AnswerForm, readings: list[Reading]) -> None:
    """Bring expressions to the plain names of their variables, and to plain code."""
    given: object = fields.get("expressions")
    if isinstance(given, str):
        given = _object(given, readings)
    if not is_json_object(given):
        return
    named = {**form.bindings, **form.expressions}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key if key in named else _variable(key, named) or key
        if name != key:
            readings.append("binding_name")
        _put(values, name, read_code(value, is_expression, readings) if isinstance(value, str) else value)
    fields["expressions"] = values


def _variable(key: str, named: Mapping[str, object]) -> str | None:
    """The variable that a key means; None for none."""
    if key in named:
        return key
    angled = _ANGLED.fullmatch(key.strip())
    return angled["name"] if angled is not None and angled["name"] in named else None


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    if name in values and json.dumps(values[name]) != json.dumps(value):
        raise NotOneMeaningError  # two values for one variable
    values[name] = value


def _only_kind(fields: Mapping[str, Any], form: AnswerForm) -> str:
    """The only kind that fits the fields of an answer."""
    given = {name for name in _ALL_FIELDS.difference(SHARED_FIELDS) if not _is_empty(fields.get(name))}
    is_nothing_set = not any(_sets(fields.get(name)) for name in ("bindings", "expressions"))
    if not given and is_nothing_set and (form.bindings or form.expressions or "return_value" in fields):
        raise NotOneMeaningError  # nothing was said
    fitting = [
        kind
        for kind in form.allowed_kinds
        if given <= {*FIELDS[kind]} and (bool(given) or kind not in ("return", "raise"))
    ]
    if len(fitting) != 1:
        raise NotOneMeaningError
    return fitting[0]


def _sets(values: object) -> bool:
    return is_json_object(values) and any(each is not None for each in values.values())


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _leave_out_extra_fields(fields: dict[str, Any], form: AnswerForm, readings: list[Reading]) -> None:
    """Leave out fields that cannot be a part of the answer, such as a reason."""
    own = FIELDS.get(str(fields["kind"]))
    if own is None:
        return
    known = [*_ALL_FIELDS, *form.bindings, *form.expressions]
    if len(fields) > len(known) + _MOST_EXTRA_FIELDS:
        raise NotOneMeaningError
    for name, value in [*fields.items()]:
        if name in (*SHARED_FIELDS, *own) or value is None:
            continue
        if name in _ALL_FIELDS and not (value == "" and name != "return_value"):
            raise NotOneMeaningError  # a field of another kind
        if name not in _ALL_FIELDS and _may_be_part(name, value, known):
            raise NotOneMeaningError
        del fields[name]
        readings.append("extra_field")


def _may_be_part(name: str, value: object, known: list[str]) -> bool:
    """Whether an unknown field may hold a part of the answer."""
    words = {each.casefold() for each in _WORDS.findall(name)}
    if words & (_CARRYING_WORDS | set(known)):
        return True
    if difflib.get_close_matches(name.casefold(), known, n=1, cutoff=_SIMILAR):
        return True
    return is_json_object(value) and any(each in known for each in value)


def _read_values(fields: dict[str, Any], form: AnswerForm, readings: list[Reading]) -> None:
    values: object = fields.get("bindings")
    if is_json_object(values):
        fields["bindings"] = read_values(values, form.binding_types, readings)
    if form.return_value is not None and "return_value" in fields:
        fields["return_value"] = _loosely(fields["return_value"], form.return_type, readings)
    for name in _CODE_FIELDS:
        if isinstance(fields.get(name), str):
            fields[name] = read_code(fields[name], is_expression, readings)


def read_values(
    values: Mapping[str, Any], types: Mapping[str, object], readings: list[Reading]
) -> dict[str, Any]:
    """Values in the form that their types have in JSON; those of unknown types as they are.

    Args:
        values: The decoded values by name.
        types: The types by name.
        readings: How they were read is appended.
    """
    return {
        name: _loosely(value, types[name], readings) if name in types else value
        for name, value in values.items()
    }


def _loosely(value: Any, annotation: object, readings: list[Reading]) -> Any:
    if type(value) not in (str, list, dict):
        return value
    loose = loose_value(annotation)
    how: list[Reading] = []
    try:
        read = value if loose is None else loose.read(value, how)
    except NotOneMeaningError:
        return value
    readings += how
    return read


def read_variables(
    answer: Mapping[str, Any], types: Mapping[str, object], readings: list[Reading]
) -> Mapping[str, Any]:
    """The values of variables in an answer that gives nothing else, by their plain names.

    Args:
        answer: The decoded answer.
        types: The types of the variables, by their names.
        readings: How they were read is appended.
    """
    values: dict[str, Any] = {}
    try:
        for key, value in answer.items():
            name = _variable(key, types) or key
            if name != key:
                readings.append("binding_name")
            _put(values, name, _loosely(value, types[name], readings) if name in types else value)
    except NotOneMeaningError:
        readings.clear()
        return answer
    return values


class CallReading(Struct, frozen=True):
    """A call as it was read.

    Args:
        call: The call that was meant.
        readings: The forms in which it was read; empty for a call as it should be.
    """

    call: ToolCall
    readings: tuple[Reading, ...] = ()


_CODE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "nh_eval": ("expression",),
    "nh_assign": ("expression",),
    "nh_exec": ("statements",),
}
"""The arguments of the provided tools that are code."""

_ARGUMENTS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **_CODE_OF,
    "nh_assign": ("target_path", "value", "expression"),
    "nh_exec": ("statements", "text"),
}


def read_call(
    call: ToolCall,
    provided: Collection[str],
    functions: Mapping[str, Tool],
    context: StepContext,
    max_bytes: int,
) -> CallReading:
    """The call that was meant.

    Args:
        call: The call as the model wrote it.
        provided: The names of the provided tools.
        functions: The tools of the program.
        context: The state of the step.
        max_bytes: The greatest size of arguments that are read, in bytes of UTF-8.
    """
    if excess_of(call.arguments, max_bytes) is not None:
        return CallReading(call)
    offered = (*provided, *functions)
    readings: list[Reading] = []
    name = read_tool_name(call.name, offered, readings)
    given = _arguments(call.arguments, readings)
    if name not in offered or given is None:
        return CallReading(call)
    arguments = dict(given)
    if name in _CODE_OF:
        _leave_out_extra_arguments(arguments, _ARGUMENTS_OF[name], readings)
        _read_code_arguments(arguments, _CODE_OF[name], readings)
    if name == "nh_assign":
        _read_assignment(arguments, context.binding_types, readings)
    elif name == "nh_eval" and "nh_exec" in provided and _is_statements(arguments.get("expression")):
        name, arguments = "nh_exec", {"statements": arguments["expression"]}
        readings.append("statements")
    elif name not in _CODE_OF:
        types: Mapping[str, object] = functions[name].parameter_types if name in functions else {}
        arguments = read_values(arguments, types, readings)
    if not readings:
        return CallReading(call)
    is_same = arguments == given and "json_syntax" not in readings and "json_text" not in readings
    text = call.arguments if is_same else json.dumps(arguments)
    return CallReading(ToolCall(id=call.id, name=name, arguments=text), tuple(dict.fromkeys(readings)))


def _arguments(text: str, readings: list[Reading]) -> dict[str, Any] | None:
    """The decoded arguments of a call; None for what is no object, or can mean several things."""
    try:
        try:
            arguments: object = decode_json(text or "{}")
        except NOT_JSON:
            arguments = read_value(text, readings)
        return dict(_object(arguments, readings))
    except NotOneMeaningError:
        return None


def _leave_out_extra_arguments(
    arguments: dict[str, Any], known: Collection[str], readings: list[Reading]
) -> None:
    """Leave out texts that cannot be a part of the call, such as a reason."""
    extra = [name for name in arguments if name not in known]
    if not all(isinstance(arguments[name], str) for name in extra):
        return
    names = [*known, "code", "path", "target", "name", "text"]
    if not extra or len(extra) > _MOST_EXTRA_FIELDS:
        return
    if any(_may_be_part(name, arguments[name], names) for name in extra):
        return
    for name in extra:
        del arguments[name]
    readings.append("extra_field")


def _read_code_arguments(arguments: dict[str, Any], names: Collection[str], readings: list[Reading]) -> None:
    for name in names:
        code: object = arguments.get(name)
        if isinstance(code, str) and code.lstrip("\r\n")[:1] in _MARGINS:
            arguments[name] = read_code(code, is_python if name == "statements" else is_code, readings)


def _is_statements(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and not is_expression(text) and is_python(text)


def _read_assignment(arguments: dict[str, Any], types: Mapping[str, object], readings: list[Reading]) -> None:
    target: object = arguments.get("target_path")
    if isinstance(target, str) and target not in types and (name := _variable(target, types)) is not None:
        arguments["target_path"] = target = name
        readings.append("binding_name")
    if isinstance(target, str) and target in types and "value" in arguments:
        arguments["value"] = _loosely(arguments["value"], types[target], readings)


def is_code(text: str) -> bool:
    """Whether a text is an expression, or statements."""
    return is_expression(text) or is_python(text)


def is_expression(text: str) -> bool:
    """Whether a text is one Python expression."""
    try:
        compile_expression(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def is_python(text: str) -> bool:
    """Whether a text is Python, awaits at its top level included."""
    try:
        compile(text, "<statements>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def read_code(text: str, is_code: Callable[[str], bool], readings: list[Reading]) -> str:
    """Code without the fence around it, and without the indentation of all its lines.

    Args:
        text: The text that a model wrote for code.
        is_code: Whether a text is code of the wanted kind.
        readings: How it was read is appended.

    Returns:
        The code; the text itself where it is code already, or would not become code.
    """
    if not text.strip() or is_code(text):
        return text
    inner = unfenced(text)
    code = text if inner is None else inner
    if not is_code(code):
        code = _without_indentation(code)
    if not is_code(code):
        return text
    readings.append("code")
    return code


def _without_indentation(code: str) -> str:
    """Code whose lines are all indented, from the margin; the same text where that changed what it says."""
    dedented = textwrap.dedent(code.strip("\r\n").rstrip())
    try:
        nested = ast.parse(f"if True:\n{code.strip(chr(10))}\n").body[0]
        body = nested.body if isinstance(nested, ast.If) else []
        is_same = [*map(ast.dump, body)] == [*map(ast.dump, ast.parse(dedented).body)]
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # `ast.dump` is recursive as well
        return code
    return dedented if is_same else code


_NAMESPACES = frozenset(
    {"api", "assistant", "default", "default_api", "function", "functions", "namespace", "tool", "tool_code"}
    | {"tools"}
)
_PARTS = re.compile(r"[.:/]+")


def read_tool_name(name: str, offered: Collection[str], readings: list[Reading]) -> str:
    """The tool that a name means, where it can mean one; the name itself for others.

    Args:
        name: The name that the model wrote.
        offered: The names of the tools on offer, the one that delivers the outcome included.
        readings: How it was read is appended.
    """
    if name in offered:
        return name
    *namespaces, last = _PARTS.split(name.strip())
    if any(each.casefold() not in _NAMESPACES for each in namespaces):
        return name
    meant = _meant(last, offered)
    if meant is None:
        return name
    readings.append("tool_name")
    return meant


def _meant(last: str, offered: Iterable[str]) -> str | None:
    plain = _plain_name(last)
    meant = [each for each in offered if each == last] or [
        each for each in offered if _plain_name(each) == plain
    ]
    return meant[0] if len(meant) == 1 else None


def _plain_name(name: str) -> str:
    return name.casefold().replace("-", "_").removesuffix("()").strip()
