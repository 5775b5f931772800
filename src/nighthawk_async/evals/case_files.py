"""Cases in files: JSON lines, YAML and CSV. A mistake is reported with its file and line."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from ..signatures import find_function, read_annotations, read_signature, type_hints
from ..suggestions import did_you_mean
from ..types.json import is_json_mapping, is_json_object, is_list_of_texts
from ..types.unset import UNSET, Unset
from ..values.error_text import describe_error, describe_validation_error
from .cases import Case, Subject
from .errors import CaseError

_INPUT_PREFIX = "inputs."
_CSV_FIELDS = ("name", "expected", "raises", "tags")
_FIELDS = ("name", "inputs", "expected", "raises", "tags", "metadata", "severity")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A case as a file has it.

    Args:
        line: The line of the file, counted from 1.
        fields: The fields of the case.
        is_text: Whether all values are texts, as those of CSV are.
    """

    line: int
    fields: Mapping[str, Any]
    is_text: bool = False


def load_cases(path: str | os.PathLike[str], *, subject: Subject | None = None) -> list[Case]:
    """Read cases from a file: JSON lines (`.jsonl`), YAML (`.yaml`, `.yml`) or CSV (`.csv`).

    A line of JSON and an item of a YAML list are objects with `name`, `inputs`, and if wanted `expected`,
    `raises` (the name of an exception), `tags`, `metadata` and `severity`. In CSV `name`, `expected`,
    `raises` and `tags` are columns; every other column is an input, and `inputs.name` is one that is called
    `name`. `tags` are separated by spaces, and an empty cell of `expected` means that nothing is expected.

    Args:
        path: The path of the file.
        subject: The function that the cases are for. Inputs and expectations are then converted to the types
            that it declares, and inputs that do not fit are refused here. Without it, values of CSV are
            texts.

    Raises:
        CaseError: The file cannot be read or has no cases, or a case in it is malformed. It names file and
            line.
    """
    name = os.fspath(path)
    reader = _READERS.get(Path(path).suffix.lower())
    if reader is None:
        raise CaseError(f"cases are read from {', '.join(_READERS)}, not from this file", filename=name)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CaseError(f"the file cannot be read: {error.strerror or error}", filename=name) from None
    except UnicodeDecodeError as error:
        raise CaseError(
            f"the file is not UTF-8: {error.reason} at byte {error.start}", filename=name
        ) from None
    types = None if subject is None else _Types(subject)
    lines: dict[str, int] = {}
    cases: list[Case] = []
    for row in reader(text, name):
        try:
            case = _case_of(row, types)
        except CaseError as error:
            raise CaseError(str(error), filename=name, line=row.line) from error.__cause__
        if case.name in lines:
            raise CaseError(
                f"the name {case.name!r} is there twice: line {lines[case.name]} has it too",
                filename=name,
                line=row.line,
            )
        lines[case.name] = row.line
        cases.append(case)
    if not cases:
        raise CaseError("the file has no cases", filename=name)
    return cases


def save_cases(cases: Iterable[Case], path: str | os.PathLike[str]) -> None:
    """Write cases as JSON lines, for `load_cases`.

    Args:
        cases: The cases. Pydantic models, dataclasses and the like become the JSON that stands for them.
        path: The path of the file, `.jsonl`; a file that is there is replaced.

    Raises:
        CaseError: A case has inputs or an expectation that JSON has no form for.
        OSError: The file cannot be written.
    """
    lines = [_line_of(case) for case in cases]
    Path(path).write_bytes(b"".join(lines))


def _line_of(case: Case) -> bytes:
    fields: dict[str, Any] = {"name": case.name, "inputs": case.build_inputs()}
    if case.has_expected:
        fields["expected"] = case.expected
    if case.raises is not None:
        fields["raises"] = case.raises if isinstance(case.raises, str) else case.raises.__name__
    if case.tags:
        fields["tags"] = case.tags
    if case.metadata:
        fields["metadata"] = dict(case.metadata)
    if case.severity != "blocking":
        fields["severity"] = case.severity
    try:
        return to_json(fields) + b"\n"
    except PydanticSerializationError as error:
        raise CaseError(f"Case {case.name!r} cannot be written as JSON: {error}") from None


def _case_of(row: _Row, types: "_Types | None") -> Case:
    unknown = next((each for each in row.fields if each not in _FIELDS), None)
    if unknown is not None:
        raise CaseError(f"a case has no field {unknown!r}.{did_you_mean(str(unknown), _FIELDS)}")
    if "name" not in row.fields:
        raise CaseError("the case has no name")
    inputs = row.fields.get("inputs", {})
    if not is_json_mapping(inputs):
        raise CaseError(f"inputs must be an object with the parameters of the function, not {inputs!r}")
    given: dict[str, Any] = dict(inputs)
    expected, raises = row.fields.get("expected", UNSET), row.fields.get("raises")
    if raises is not None and not isinstance(raises, str):
        raise CaseError(f"raises must be the name of an exception, not {raises!r}")
    if types is not None:
        given = types.convert_inputs(given, is_text=row.is_text)
        expected = types.convert_expected(expected, is_text=row.is_text)
    return Case(
        row.fields["name"],
        inputs=given,
        expected=expected,
        raises=raises,
        tags=_tags(row.fields.get("tags", ())),
        metadata=_metadata(row.fields.get("metadata", {})),
        severity=row.fields.get("severity", "blocking"),
    )


def _tags(tags: object) -> tuple[str, ...]:
    if isinstance(tags, str):
        return tuple(tags.split())
    if not is_list_of_texts(tags):
        raise CaseError(f"tags must be a list of texts, not {tags!r}")
    return tuple(tags)


def _metadata(metadata: object) -> Mapping[str, Any]:
    if not is_json_mapping(metadata):
        raise CaseError(f"metadata must be an object, not {metadata!r}")
    return metadata


class _Types:
    """The declared types of a subject, which the values of files are converted to.

    Args:
        subject: The function.
    """

    def __init__(self, subject: Subject) -> None:
        try:
            self._signature = read_signature(subject)
            self._hints = type_hints(subject)
            function = find_function(subject)
            self._annotated: Mapping[str, object] = {} if function is None else read_annotations(function)
        except Exception as error:  # annotations may name anything
            raise CaseError(f"The types of the subject cannot be read: {describe_error(error)}") from None
        self._adapters = {name: _adapter(hint) for name, hint in self._hints.items()}

    def convert_inputs(self, inputs: Mapping[str, Any], *, is_text: bool) -> dict[str, Any]:
        """Return the inputs with the declared types.

        Raises:
            CaseError: They do not fit the subject.
        """
        given = {
            name: value for name, value in inputs.items() if not (is_text and self._is_left_out(name, value))
        }
        try:
            self._signature.bind(**given)
        except TypeError as error:
            raise CaseError(f"the inputs do not fit the subject: {error}") from None
        return {name: self._convert(name, value, f"input {name!r}", is_text) for name, value in given.items()}

    def convert_expected(self, expected: Any, *, is_text: bool) -> Any:
        """Return the expectation with the declared type of the result.

        Raises:
            CaseError: It does not fit.
        """
        if isinstance(expected, Unset):
            return expected
        return self._convert("return", expected, "expected", is_text)

    def _is_left_out(self, name: str, text: str) -> bool:
        """Whether an empty cell means that the parameter has its default."""
        parameter = self._signature.parameters.get(name)
        return not text and parameter is not None and parameter.default is not parameter.empty

    def _convert(self, name: str, value: Any, what: str, is_text: bool) -> Any:
        adapter = self._adapters.get(name)
        if name in self._annotated and name not in self._hints:
            raise CaseError(f"{what}: its type in the subject cannot be resolved: {self._annotated[name]!r}")
        if adapter is None:
            return value
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            if is_text:
                try:
                    return adapter.validate_json(value)
                except ValidationError:
                    pass
            raise CaseError(f"{what}: {describe_validation_error(error)}") from None


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(hint)
    except PydanticUserError:  # a type that pydantic does not know, whose values are taken as they are
        return None


def _read_json_lines(text: str, name: str) -> Iterator[_Row]:
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            fields = json.loads(content, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as error:
            raise CaseError(f"this is no JSON: {error}", filename=name, line=line) from None
        if not is_json_object(fields):
            raise CaseError(f"a case is a JSON object, not {content.strip()[:80]}", filename=name, line=line)
        yield _Row(line=line, fields=fields)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(each for each in names if names.count(each) > 1)!r} is there twice")
    return fields


class _CaseLoader(yaml.SafeLoader):
    """Reads YAML in which no mapping has a key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping."""
        names = [each.value for each, _ in node.value if isinstance(each, yaml.ScalarNode)]
        twice = next((each for each in names if each != "<<" and names.count(each) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _read_yaml(text: str, name: str) -> Iterator[_Row]:
    loader: _CaseLoader | None = None
    try:
        loader = _CaseLoader(text)
        root = loader.get_single_node()
        if root is None:
            return
        if not isinstance(root, yaml.SequenceNode):
            raise CaseError("a YAML file of cases is a list", filename=name, line=root.start_mark.line + 1)
        for node in root.value:
            line = node.start_mark.line + 1
            try:
                fields: object = cast("Any", loader).construct_object(node, deep=True)
            except ValueError as error:  # a number or a date that does not exist
                raise CaseError(f"this is no YAML: {error}", filename=name, line=line) from None
            if not is_json_object(fields):
                raise CaseError(f"a case is a mapping, not {fields!r}", filename=name, line=line)
            yield _Row(line=line, fields=fields)
    except RecursionError:
        raise CaseError("this is no YAML: it is nested too deeply", filename=name) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        line = None if mark is None else mark.line + 1
        raise CaseError(f"this is no YAML: {problem}", filename=name, line=line) from None
    finally:
        if loader is not None:
            loader.dispose()


def _read_csv(text: str, name: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = next(reader, None)
        if columns is None:
            return
        _check_columns(columns, name)
        while True:
            line = reader.line_num + 1
            row = next(reader, None)
            if row is None:
                return
            if not row:
                continue  # an empty line
            if len(row) != len(columns):
                raise CaseError(
                    f"the row has {len(row)} cells, and the header {len(columns)}", filename=name, line=line
                )
            yield _Row(line=line, fields=_fields_of_cells(dict(zip(columns, row, strict=True))), is_text=True)
    except csv.Error as error:
        raise CaseError(f"this is no CSV: {error}", filename=name, line=reader.line_num) from None


def _check_columns(columns: Sequence[str], name: str) -> None:
    problem = None
    inputs = [_input_name(each) for each in columns if each not in _CSV_FIELDS]
    twice = next(
        (each for each in (*columns, *inputs) if max(columns.count(each), inputs.count(each)) > 1), None
    )
    if twice is not None:
        problem = f"the column {twice!r} is there twice"
    elif "name" not in columns:
        problem = "a CSV file of cases has a header with a column 'name'"
    elif unusable := next((each for each in columns if not _input_name(each).isidentifier()), None):
        problem = f"the column {unusable!r} is no name of a parameter"
    if problem is not None:
        raise CaseError(problem, filename=name, line=1)


def _fields_of_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": cells["name"]}
    for optional in ("expected", "raises", "tags"):
        if cells.get(optional):
            fields[optional] = cells[optional]
    inputs = {_input_name(column): text for column, text in cells.items() if column not in _CSV_FIELDS}
    return {**fields, "inputs": inputs}


def _input_name(column: str) -> str:
    return column.removeprefix(_INPUT_PREFIX)


_READERS: Mapping[str, Callable[[str, str], Iterator[_Row]]] = {
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".csv": _read_csv,
}
