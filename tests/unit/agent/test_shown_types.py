"""What the system prompt says of the types of a block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

import nighthawk_async as nh
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, returning

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class Address(BaseModel):
    zip_code: str = Field(description="five digits", pattern=r"\d{5}")


class Customer(BaseModel):
    """A customer as the CRM knows it."""

    name: str
    plan: Literal["free", "pro"] = "free"
    address: Address | None = None


@dataclass
class Ticket:
    text: str


HEADING = "TYPES: give instances, or plain data that validates."

STUBS = f"""\
{HEADING}
class Customer:  # A customer as the CRM knows it.
    name: str
    plan: Literal["free", "pro"] = "free"
    address: Address | None = None
class Ticket:
    text: str
class Address:
    zip_code: str  # five digits; matches \\d{{5}}
"""


def find_customer(ticket: Ticket) -> Customer:
    return Customer(name=ticket.text)


@nh.natural_function
async def read_ticket(ticket: Ticket) -> list[Customer]:
    customer: Customer
    """natural
    Set <:customer> to the customer of <ticket>, see <find_customer>.
    """
    return [customer]


@nh.natural_function
async def rate(text: str) -> Annotated[float, Field(gt=0)]:
    stars: Annotated[int, Field(ge=1, le=5)]
    """natural
    Set <:stars> for <text>.
    """
    return stars


SET_CUSTOMER = (assigning("customer", "{'name': ticket.text}"), PASS)


async def system_prompts(
    *values: str, function: Callable[[Any], Any] = read_ticket, **configuration: Any
) -> list[str]:
    """The system prompts of one step for each value."""
    steps = ScriptedSteps(*[SET_CUSTOMER] * len(values), **configuration)
    async with nh.run(steps.executor):
        for value in values:
            await function(Ticket(value))
    return [request.system_prompt for request in steps.model.requests]


async def test_types_are_shown_as_stubs_before_the_variables_to_set() -> None:
    (prompt,) = await system_prompts("Ada")
    assert f"\n\n{STUBS}\n" in prompt
    assert prompt.index(STUBS) < prompt.index("\n- customer: Customer")
    assert "__main__" not in prompt
    assert __name__ not in prompt
    assert "FieldInfo" not in prompt


async def test_every_execution_of_a_block_has_the_same_system_prompt() -> None:
    prompts = await system_prompts("Ada", "Bob", "x" * 5_000)
    assert len(set(prompts)) == 1


@nh.natural_function
async def answer(tickets: list[Ticket | Customer], first: Ticket | None = None) -> str:
    """natural
    Answer <tickets>, <first> before all others.
    """
    return ""


async def test_values_of_the_types_of_parameters_do_not_change_the_system_prompt() -> None:
    ticket, customer = Ticket("Help!"), Customer(name="Ada", address=Address(zip_code="12345"))
    prompts: list[str] = []
    lists: tuple[list[Ticket | Customer], ...] = ([ticket, customer], [customer], [customer, ticket], [])
    for tickets, first in zip(lists, (ticket, None, ticket, None), strict=True):
        steps = ScriptedSteps(PASS)
        async with nh.run(steps.executor):
            await answer(tickets, first)
        prompts.append(steps.model.requests[0].system_prompt)
    assert len(set(prompts)) == 1
    assert all(f"class {name}:" in prompts[0] for name in ("Ticket", "Customer", "Address"))


async def test_a_block_without_types_has_no_section_of_them() -> None:
    steps = ScriptedSteps((assigning("stars", "3"), PASS))
    async with nh.run(steps.executor):
        assert await rate("good") == 3
    prompt = steps.model.requests[0].system_prompt
    assert "TYPES" not in prompt
    assert "\n\n\n" not in prompt
    assert "\n- stars: int (>= 1, <= 5)" in prompt
    assert "float (> 0)" in prompt


async def test_a_class_in_reach_by_its_module_alone_is_written_with_it() -> None:
    import types

    module = types.ModuleType("crm")
    module.__dict__["Customer"] = Customer
    namespace: dict[str, Any] = {"nh": nh, "crm": module}
    source = '''
@nh.natural_function
async def find(name: str) -> crm.Customer:
    """natural
    Return the customer <name>.
    """
'''
    function = _defined(source, namespace, "find")
    steps = ScriptedSteps(returning("crm.Customer(name=name)"))
    async with nh.run(steps.executor):
        await function("Ada")
    prompt = steps.model.requests[0].system_prompt
    assert "\nclass crm.Customer:  # A customer as the CRM knows it.\n" in prompt
    assert "\nclass Address:  # give as data\n" in prompt
    assert "crm.Customer" in prompt.partition("return_value")[2]


def _defined(source: str, namespace: dict[str, Any], name: str) -> Callable[[Any], Any]:
    import linecache

    filename = f"<{__name__}.{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


async def test_the_number_of_tokens_is_bounded() -> None:
    (prompt,) = await system_prompts("Ada", context_limits=nh.StepContextLimits(types_max_tokens=50))
    section = prompt.partition(HEADING)[2].partition("\n\n")[0]
    assert "class Customer:" in section
    assert section.splitlines()[-1].startswith("# not shown: ")
    (prompt,) = await system_prompts("Ada", context_limits=nh.StepContextLimits(types_max_tokens=0))
    assert "TYPES" not in prompt


async def test_templates_choose_where_types_are_shown() -> None:
    templates = nh.StepPromptTemplates(
        step_system_prompt_template="A $$5 ${tool_result_max_tokens}\n\n$types\n\n$outcome",
        step_user_prompt_template="$program $types",
    )
    limits = nh.StepContextLimits(tool_result_max_tokens=700)
    steps = ScriptedSteps(SET_CUSTOMER, prompts=templates, context_limits=limits)
    async with nh.run(steps.executor):
        await read_ticket(Ticket("Ada"))
    assert steps.model.requests[0].system_prompt.startswith(f"A $5 700\n\n{HEADING}\nclass Customer:")
    assert steps.user_prompt.partition("find_customer>.\n ")[2].startswith(HEADING)
    (prompt,) = await system_prompts("Ada", prompts=nh.StepPromptTemplates(step_system_prompt_template="No."))
    assert prompt == "No."


async def test_a_class_that_a_block_must_not_see_is_given_as_data() -> None:
    limits = nh.StepContextLimits(visible_names="named")
    (prompt,) = await system_prompts("Ada", context_limits=limits)
    assert "\nclass Ticket:  # give as data\n" in prompt


@pytest.mark.parametrize(
    ("template", "unknown", "known"),
    [
        ("step_system_prompt_template", "$program", "$tools, $outcome, $types, $tool_result_max_tokens"),
        ("step_system_prompt_template", "${type}", "$tools, $outcome, $types, $tool_result_max_tokens"),
        (
            "step_user_prompt_template",
            "$tools",
            "$program, $locals, $globals, $types, $tool_result_max_tokens",
        ),
        (
            "step_user_prompt_template",
            "${HOME}",
            "$program, $locals, $globals, $types, $tool_result_max_tokens",
        ),
    ],
)
async def test_an_unknown_placeholder_is_refused(template: str, unknown: str, known: str) -> None:
    with pytest.raises(ValidationError) as refused:
        nh.StepPromptTemplates(**{template: f"$types {unknown} $$no $5 ${{x"})
    name = unknown.strip("${}")
    assert f"unknown placeholder ${name}; known here: {known}; write $$ for a dollar sign" in str(
        refused.value
    )


async def test_a_direct_answer_is_asked_for_with_the_same_stubs() -> None:
    steps = ScriptedSteps(SET_CUSTOMER, outcome_transport="direct")
    async with nh.run(steps.executor):
        with pytest.raises(nh.NighthawkError):
            await read_ticket(Ticket("Ada"))
    assert STUBS in steps.model.requests[0].system_prompt
