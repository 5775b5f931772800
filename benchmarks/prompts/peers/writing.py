"""Agents written by hand that write: summaries, translations, mails, code and queries."""

from pydantic_ai import Agent

from ..data.writing import (
    COMMITS,
    COMPLAINT,
    FAQ,
    FUNCTION_TASK,
    GLOSSARY,
    MANUAL,
    SCHEMA,
    SPEECH,
    Note,
    Query,
)
from .asking import Asked, as_json

__all__ = ["ASKED"]

ASKED = {
    "summarize": Asked(
        Agent(
            instructions="Summarize the report for citizens in three sentences: what changes for them, with "
            "all figures and dates."
        ),
        SPEECH,
    ),
    "glossary": Asked(
        Agent(instructions="Translate the text into German with the words of the glossary."),
        f"Glossary: {as_json(GLOSSARY)}\n\nText: {MANUAL}",
    ),
    "quotes": Asked(
        Agent(
            output_type=Note,
            instructions="Answer the complaint as Tom from support. Quote the words from the customer's "
            "second sentence that name a file, exactly, each on a line of its own in double quotes.",
        ),
        COMPLAINT,
    ),
    "code": Asked(Agent(instructions="Write Python. Return only the source."), FUNCTION_TASK),
    "sql": Asked(
        Agent(
            output_type=Query,
            instructions="Write SQL that answers the question on the tables of the schema, with named "
            "parameters such as :name for values.",
        ),
        f"{SCHEMA}\nWhat did customers from Norway pay in 2025, in all, and how many of them are there?",
    ),
    "changelog": Asked(
        Agent(
            instructions="Write a changelog in Markdown from the commits: the headings Added, Changed, "
            "Fixed and Removed as needed, one bullet each, and nothing of what users do not notice."
        ),
        as_json(COMMITS),
    ),
    "generator": Asked(
        Agent(
            instructions="Answer the question shortly by the rules.",
        ),
        "Rules: Returns within 30 days. Delivery to the EU, Norway and Switzerland. Invoices for businesses "
        "only.\n\n"
        f"Question: {FAQ[0]}",
    ),
}
