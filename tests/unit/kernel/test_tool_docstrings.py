"""Descriptions of a tool's parameters, from docstrings in three styles."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import given, strategies as st
from pydantic import Field

from nighthawk_async.kernel.tools import RunContext, make_tool_function, read_docstring


def google(name: str, age: int = 3) -> str:
    """Look somebody up.

    In the CRM.

    Args:
        name: The name, which
            goes on.
        age (int): The age.

    Returns:
        What was found.

    Raises:
        KeyError: Nobody was.
    """
    raise NotImplementedError


def numpy(name: str, age: int = 3) -> str:
    """Look somebody up.

    In the CRM.

    Parameters
    ----------
    name : str
        The name, which
        goes on.
    age
        The age.

    Returns
    -------
    str
        What was found.
    """
    raise NotImplementedError


def sphinx(name: str, age: int = 3) -> str:
    """Look somebody up.

    In the CRM.

    :param name: The name, which
        goes on.
    :type name: str
    :param int age: The age.
    :returns: What was found.
    """
    raise NotImplementedError


def definition(function: Callable[..., object], description: str | None = None) -> tuple[str, dict[str, Any]]:
    tool = make_tool_function(function, name="tool", description=description, metadata=None)
    properties: dict[str, Any] = tool.definition.parameters["properties"]
    return tool.definition.description, {
        name: schema["description"] for name, schema in properties.items() if "description" in schema
    }


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_parameters_have_the_descriptions_of_the_docstring(function: Callable[..., object]) -> None:
    description, parameters = definition(function)
    assert parameters == {"name": "The name, which goes on.", "age": "The age."}
    assert description.startswith("Look somebody up.\n\nIn the CRM.\n\n")
    assert "What was found." in description
    assert "The age" not in description
    assert "The name" not in description


def test_what_follows_the_parameters_stays() -> None:
    assert definition(google)[0].endswith(
        "Returns:\n    What was found.\n\nRaises:\n    KeyError: Nobody was."
    )
    assert definition(numpy)[0].endswith("\n\nReturns\n-------\nstr\n    What was found.")
    assert definition(sphinx)[0].endswith("\n\n:returns: What was found.")


def test_a_description_of_the_annotation_wins() -> None:
    def tool(
        name: Annotated[str, Field(description="mine", max_length=5)], age: Annotated[int, Field(ge=0)]
    ) -> None:
        """Look.

        Args:
            name: not this
            age: The age.
        """

    assert definition(tool) == ("Look.", {"name": "mine", "age": "The age."})


def test_a_description_that_is_given_stays_as_it_is() -> None:
    description, parameters = definition(google, description="Mine. Args: none")
    assert description == "Mine. Args: none"
    assert parameters["age"] == "The age."


def test_the_run_context_may_be_described_too() -> None:
    def tool(run_context: RunContext[Any], name: str) -> None:
        """Look.

        Args:
            run_context: Not shown.
            name: The name.
        """

    assert definition(tool) == ("Look.", {"name": "The name."})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Look.",
        "Look: at it\n\nNote: Args are none.",
        "Args:\n",
        "Args:\n    nothing that describes a parameter\n",
        "Look.\n\nArgs:\n    other: Not a parameter.",
        "Parameters\n----------",
        "Say :param name: inside a line.",
    ],
)
def test_a_docstring_that_describes_no_parameters_of_the_function_stays_as_it_is(text: str) -> None:
    documentation = read_docstring(text, ["name"])
    assert documentation.description == text
    assert documentation.parameters == {}


_LINES = st.sampled_from(
    [
        "Args:",
        "    name: a",
        "Parameters",
        "----------",
        ":param name: a",
        "    b",
        "",
        "name : str",
        "Returns:",
        "x",
    ]
)


@given(st.lists(_LINES | st.text(max_size=20), max_size=12).map("\n".join))
def test_any_docstring_can_be_read(text: str) -> None:
    documentation = read_docstring(text, ["name"])
    assert set(documentation.parameters) <= {"name"}
    if not documentation.parameters:
        assert documentation.description == text
