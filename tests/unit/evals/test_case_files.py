"""Cases in files."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from nighthawk_async.evals import Case, CaseError, load_cases, save_cases
from nighthawk_async.types.unset import UNSET


class Order(BaseModel):
    """An order."""

    items: list[str]
    paid: bool = False


async def handle(order: Order, limit: int, note: str = "none", tags: list[int] | None = None) -> float:
    return 0.0


def file(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_cases_are_read_from_json_lines(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        "cases.jsonl",
        b'\xef\xbb\xbf{"name": "good", "inputs": {"review": "Four\xe2\x80\xa8stars."}, "expected": 4}\r\n\n'
        b'{"name": "none", "inputs": {"review": ""}, "raises": "ValueError", "tags": ["a", "b"], '
        b'"metadata": {"from": "x"}}\n'
        b'{"name": "null", "expected": null}',
    )
    assert load_cases(path) == [
        Case("good", inputs={"review": "Four\u2028stars."}, expected=4),
        Case("none", inputs={"review": ""}, raises="ValueError", tags=("a", "b"), metadata={"from": "x"}),
        Case("null", expected=None),
    ]


def test_cases_are_read_from_yaml(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        "cases.yaml",
        "# reviews\n- name: good\n  inputs:\n    review: |\n      Four stars.\n  expected: 4\n"
        "- name: next\n  tags: a b\n",
    )
    assert load_cases(path) == [
        Case("good", inputs={"review": "Four stars.\n"}, expected=4),
        Case("next", tags=("a", "b")),
    ]


def test_cases_are_read_from_csv(tmp_path: Path) -> None:
    path = file(
        tmp_path, "cases.csv", 'name,review,expected,tags\ngood,"Four\nstars, or so",4,a b\n\nnext,,,\n'
    )
    assert load_cases(path) == [
        Case("good", inputs={"review": "Four\nstars, or so"}, expected="4", tags=("a", "b")),
        Case("next", inputs={"review": ""}),
    ]


def test_values_are_converted_to_the_types_of_the_subject(tmp_path: Path) -> None:
    lines = {"name": "a", "inputs": {"order": {"items": ["x"]}, "limit": 3}, "expected": 1}
    (case,) = load_cases(file(tmp_path, "cases.jsonl", json.dumps(lines)), subject=handle)
    assert case.build_inputs() == {"order": Order(items=["x"]), "limit": 3}
    assert (case.expected, type(case.expected)) == (1.0, float)


def test_cells_are_converted_to_the_types_of_the_subject(tmp_path: Path) -> None:
    row = 'a,"{""items"": [""x""], ""paid"": true}",3,,"[1, 2]",1.5'
    text = f"name,order,limit,note,inputs.tags,expected\n{row}\n"
    (case,) = load_cases(file(tmp_path, "cases.csv", text), subject=handle)
    assert case.build_inputs() == {"order": Order(items=["x"], paid=True), "limit": 3, "tags": [1, 2]}
    assert case.expected == 1.5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("c.jsonl", '{"name": "a"}\n{"name": ', "c.jsonl:2: this is no JSON", id="json"),
        pytest.param("c.jsonl", '{"name": "a"}\n\n[1]', "c.jsonl:3: a case is a JSON object", id="json list"),
        pytest.param(
            "c.jsonl",
            '{"name": "a"}\n{"name": "a"}',
            "c.jsonl:2: the name 'a' is there twice: line 1",
            id="twice",
        ),
        pytest.param("c.jsonl", '{"inputs": {}}', "c.jsonl:1: the case has no name", id="no name"),
        pytest.param("c.jsonl", '{"name": 3}', "c.jsonl:1: The name of a case must be a text", id="number"),
        pytest.param(
            "c.jsonl",
            '{"name": "a", "inputss": {}}',
            "1: a case has no field 'inputss'. Did you mean 'inputs'",
            id="field",
        ),
        pytest.param(
            "c.jsonl", '{"name": "a", "inputs": [1]}', "c.jsonl:1: inputs must be an object", id="inputs"
        ),
        pytest.param(
            "c.jsonl", '{"name": "a", "raises": 1}', "c.jsonl:1: raises must be the name", id="raises"
        ),
        pytest.param(
            "c.jsonl", '{"name": "a", "tags": [1]}', "c.jsonl:1: tags must be a list of texts", id="tags"
        ),
        pytest.param(
            "c.jsonl", '{"name": "a", "metadata": 1}', "c.jsonl:1: metadata must be an object", id="metadata"
        ),
        pytest.param("c.jsonl", "", "c.jsonl: the file has no cases", id="empty"),
        pytest.param("c.yaml", "", "c.yaml: the file has no cases", id="empty yaml"),
        pytest.param("c.yaml", "name: a", "c.yaml:1: a YAML file of cases is a list", id="yaml mapping"),
        pytest.param("c.yaml", "- name: a\n- b", "c.yaml:2: a case is a mapping, not 'b'", id="yaml item"),
        pytest.param("c.yml", "- name: a\n- name: [", "c.yml:2: this is no YAML", id="yaml"),
        pytest.param(
            "c.yml", "- name: a\n- name: 2024-13-45", "c.yml:2: this is no YAML: month must be", id="date"
        ),
        pytest.param("c.yml", "- name: !!python/name:os.system a", "c.yml:1: this is no YAML", id="yaml tag"),
        pytest.param("c.csv", "", "c.csv: the file has no cases", id="empty csv"),
        pytest.param(
            "c.csv",
            "review\nx",
            "c.csv:1: a CSV file of cases has a header with a column 'name'",
            id="no header",
        ),
        pytest.param("c.csv", "name,a,a\nx,1,2", "c.csv:1: the column 'a' is there twice", id="column twice"),
        pytest.param(
            "c.csv", "name,a b\nx,1", "c.csv:1: the column 'a b' is no name of a parameter", id="column"
        ),
        pytest.param(
            "c.csv", 'name,a\nx,"1\n2"\ny,1,2', "c.csv:4: the row has 3 cells, and the header 2", id="cells"
        ),
        pytest.param("c.csv", 'name,a\nx,"1', "c.csv:2: this is no CSV", id="csv"),
        pytest.param(
            "c.csv",
            "name,a\n,1",
            "c.csv:2: The name of a case must be a text that is not empty",
            id="no cell",
        ),
        pytest.param(
            "c.jsonl",
            '{"name": "a", "inputs": {"n": 1, "n": 2}}',
            "c.jsonl:1: this is no JSON: 'n' is there twice",
            id="json key twice",
        ),
        pytest.param(
            "c.yaml",
            "- name: a\n  inputs: {n: 1, n: 2}",
            "c.yaml:2: this is no YAML: 'n' is there twice",
            id="yaml key twice",
        ),
        pytest.param(
            "c.csv", "name,n,inputs.n\na,1,2", "c.csv:1: the column 'n' is there twice", id="input twice"
        ),
        pytest.param("c.jsonl", "[" * 100_000, "c.jsonl:1: this is no JSON", id="deep json"),
        pytest.param("c.yaml", "[" * 5_000, "c.yaml: this is no YAML: it is nested", id="deep yaml"),
        pytest.param("c.yaml", b"\x00\x01", "c.yaml: this is no YAML: unacceptable", id="binary yaml"),
        pytest.param(
            "c.jsonl", r'{"name": "\ud800"}', "c.jsonl:1: .* half of a surrogate pair", id="surrogate"
        ),
        pytest.param("c.txt", "", r"c.txt: cases are read from .jsonl", id="suffix"),
        pytest.param("c.jsonl", b"\xff{", "c.jsonl: the file is not UTF-8: .* at byte 0", id="encoding"),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    path = file(tmp_path, name, text)
    with pytest.raises(CaseError, match=message) as raised:
        load_cases(path)
    assert raised.value.filename == str(path)


@pytest.mark.parametrize(
    ("inputs", "expected", "message"),
    [
        pytest.param(
            {"order": {"items": 1}, "limit": 3}, 1, "1: input 'order': at items: Input should be", id="type"
        ),
        pytest.param({"limit": 3}, 1, "1: the inputs do not fit the subject: missing", id="missing"),
        pytest.param(
            {"order": {"items": []}, "limit": 3, "more": 1},
            1,
            "unexpected keyword argument 'more'",
            id="more",
        ),
        pytest.param(
            {"order": {"items": []}, "limit": 3}, "many", "1: expected: Input should be", id="expected"
        ),
    ],
)
def test_values_that_do_not_fit_the_subject_are_reported(
    tmp_path: Path, inputs: dict[str, Any], expected: Any, message: str
) -> None:
    line = json.dumps({"name": "a", "inputs": inputs, "expected": expected})
    with pytest.raises(CaseError, match=message):
        load_cases(file(tmp_path, "cases.jsonl", line), subject=handle)


def test_a_cell_that_does_not_fit_the_subject_is_reported(tmp_path: Path) -> None:
    path = file(tmp_path, "cases.csv", 'name,order,limit\na,"{""items"": []}",3\nb,"{""items"": []}",many\n')
    with pytest.raises(CaseError, match=r"cases\.csv:3: input 'limit': Input should be a valid integer"):
        load_cases(path, subject=handle)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"missing\.jsonl: the file cannot be read: No such file"):
        load_cases(tmp_path / "missing.jsonl")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(min_size=1).filter(str.strip), json_values, min_size=1, max_size=4),
    json_values | st.just(UNSET),
)
def test_saved_cases_are_the_same_when_they_are_loaded(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], expected: Any
) -> None:
    path = tmp_path_factory.mktemp("cases") / "cases.jsonl"
    saved = [
        Case(name, inputs={"value": value}, expected=expected, tags=("t",)) for name, value in values.items()
    ]
    save_cases(saved, path)
    assert load_cases(path) == saved


def test_objects_are_saved_as_their_json(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    saved = Case("a", inputs=lambda: {"order": Order(items=["x"]), "limit": 3}, expected=1.0)
    save_cases(
        [
            saved,
            Case(
                "b",
                inputs={"order": Order(items=[]), "limit": 1},
                raises=KeyError,
                metadata={"on": date(2026, 1, 2)},
            ),
        ],
        path,
    )
    first, second = load_cases(path, subject=handle)
    assert first.build_inputs() == {"order": Order(items=["x"]), "limit": 3}
    assert (second.raises, second.metadata) == ("KeyError", {"on": "2026-01-02"})


def test_a_case_without_a_form_in_json_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = file(tmp_path, "cases.jsonl", "before")
    with pytest.raises(CaseError, match="Case 'b' cannot be written as JSON"):
        save_cases([Case("a"), Case("b", inputs={"it": object()})], path)
    assert path.read_text() == "before"
