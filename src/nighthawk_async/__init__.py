"""Natural-language blocks in Python as structured-concurrency actors, on Trio or asyncio.

Exports are loaded on first use: a program that defines no budget, asks no person and starts no actor does not
import the code for these. Type checkers and editors read the imports under `TYPE_CHECKING`.
"""

from typing import TYPE_CHECKING

from .lazy_exports import LazyModule, attach_exports
from .tracing import offer_tracing

if TYPE_CHECKING:
    from . import (
        actors,
        asgi,
        credentials as credentials,
        distributed,
        errors,
        evals,
        executors,
        hooks as hooks,
        human,
        journal,
        library as library,
        mcp,
        memory,
        models,
        observe,
        oversight,
        parallel,
        policies,
        resilience,
        runtime as runtime,
        skills,
        telemetry as telemetry,
    )
    from .configuration import (
        StepContextLimits as StepContextLimits,
        StepExecutorConfiguration,
        StepPromptTemplates as StepPromptTemplates,
    )
    from .errors import (
        BudgetExceededError as BudgetExceededError,
        ConfigurationError as ConfigurationError,
        ContextTooLongError as ContextTooLongError,
        ExecutionError,
        ModelError as ModelError,
        NaturalParseError as NaturalParseError,
        NighthawkError,
        ToolEvaluationError as ToolEvaluationError,
        ToolRegistrationError as ToolRegistrationError,
        ToolValidationError as ToolValidationError,
    )
    from .executors.agent import AgentStepExecutor
    from .functions import natural_function
    from .hooks import Hooks as Hooks
    from .human import ask_user, request_approval
    from .journal.effects import once, repeatable
    from .kernel.context import StepContext as StepContext
    from .kernel.environment import (
        get_current_step_actor as get_current_step_actor,
        get_current_step_context as get_current_step_context,
        get_execution_ref as get_execution_ref,
        get_step_executor as get_step_executor,
        get_usage_meter as get_usage_meter,
        resource as resource,
    )
    from .kernel.policy import Policy as Policy
    from .kernel.progress import progress
    from .kernel.tool_sets import tool, tool_set
    from .kernel.tools import RunContext as RunContext
    from .memory.memory import Memory
    from .models.batched_model import batched as batched
    from .parallel import current_task as current_task, deadline, open_tasks
    from .policies.budgets.budget import budget
    from .policies.budgets.terms import BudgetLimits as BudgetLimits
    from .policies.egress.egress import egress
    from .policies.partial_readers import partial_values as partial_values
    from .policies.permissions.permissions import permissions
    from .policies.text_stream import stream_text
    from .runs import run, start_run, start_run_sync as start_run_sync
    from .sandbox.declaration import Sandbox
    from .scopes import scope
    from .steps import step, step_sync as step_sync
    from .threads import blocking
    from .transcripts.citations import citations as citations
    from .transcripts.transcript import Transcript as Transcript, transcript
    from .types.execution import ExecutionRef as ExecutionRef, PartialValues as PartialValues
    from .types.json import JsonableValue as JsonableValue
    from .types.messages import BinaryContent as BinaryContent, ImageUrl as ImageUrl
    from .types.unset import unset
    from .types.usage import Usage as Usage
    from .values.snapshots import shared

    __version__: str
else:
    _load, __dir__ = attach_exports(
        __name__,
        submodules=(
            "actors",
            "asgi",
            "credentials",
            "distributed",
            "errors",
            "evals",
            "executors",
            "hooks",
            "human",
            "journal",
            "library",
            "mcp",
            "memory",
            "models",
            "observe",
            "oversight",
            "parallel",
            "policies",
            "resilience",
            "runtime",
            "skills",
            "telemetry",
        ),
        names={
            "configuration": (
                "StepContextLimits",
                "StepExecutorConfiguration",
                "StepPromptTemplates",
            ),
            "errors": (
                "BudgetExceededError",
                "ConfigurationError",
                "ContextTooLongError",
                "ExecutionError",
                "ModelError",
                "NaturalParseError",
                "NighthawkError",
                "ToolEvaluationError",
                "ToolRegistrationError",
                "ToolValidationError",
            ),
            "executors.agent": ("AgentStepExecutor",),
            "functions": ("natural_function",),
            "hooks": ("Hooks",),
            "human": (
                "ask_user",
                "request_approval",
            ),
            "journal.effects": (
                "once",
                "repeatable",
            ),
            "kernel.context": ("StepContext",),
            "kernel.progress": ("progress",),
            "kernel.environment": (
                "get_current_step_actor",
                "get_current_step_context",
                "get_execution_ref",
                "get_step_executor",
                "get_usage_meter",
                "resource",
            ),
            "kernel.policy": ("Policy",),
            "kernel.tool_sets": (
                "tool",
                "tool_set",
            ),
            "kernel.tools": ("RunContext",),
            "memory.memory": ("Memory",),
            "models.batched_model": ("batched",),
            "parallel": (
                "current_task",
                "deadline",
                "open_tasks",
            ),
            "policies.budgets.budget": ("budget",),
            "policies.budgets.terms": ("BudgetLimits",),
            "policies.egress.egress": ("egress",),
            "policies.partial_readers": ("partial_values",),
            "policies.permissions.permissions": ("permissions",),
            "policies.text_stream": ("stream_text",),
            "runs": (
                "run",
                "start_run",
                "start_run_sync",
            ),
            "sandbox.declaration": ("Sandbox",),
            "scopes": ("scope",),
            "steps": (
                "step",
                "step_sync",
            ),
            "threads": ("blocking",),
            "transcripts.citations": ("citations",),
            "transcripts.transcript": (
                "Transcript",
                "transcript",
            ),
            "types.execution": (
                "ExecutionRef",
                "PartialValues",
            ),
            "types.json": ("JsonableValue",),
            "types.messages": (
                "BinaryContent",
                "ImageUrl",
            ),
            "types.unset": ("unset",),
            "types.usage": ("Usage",),
            "values.snapshots": ("shared",),
        },
    )

    def __getattr__(name: str) -> object:
        """Load an export on first use; the version comes from the installed distribution."""
        if name == "__version__":
            from importlib.metadata import version

            return version("nighthawk-async")
        if name == "open_tasks":  # in a package that knows nothing of the mailboxes of tasks
            from importlib import import_module

            import_module(f"{__name__}.kernel.run")
        return _load(name)


__all__ = [
    "AgentStepExecutor",
    "ExecutionError",
    "Memory",
    "NighthawkError",
    "Sandbox",
    "StepExecutorConfiguration",
    "actors",
    "asgi",
    "ask_user",
    "blocking",
    "budget",
    "deadline",
    "distributed",
    "egress",
    "errors",
    "evals",
    "executors",
    "human",
    "journal",
    "mcp",
    "memory",
    "models",
    "natural_function",
    "observe",
    "once",
    "open_tasks",
    "oversight",
    "parallel",
    "permissions",
    "policies",
    "progress",
    "repeatable",
    "request_approval",
    "resilience",
    "run",
    "scope",
    "shared",
    "skills",
    "start_run",
    "step",
    "stream_text",
    "tool",
    "tool_set",
    "transcript",
    "unset",
]

offer_tracing(LazyModule(f"{__name__}.telemetry.tracing"))  # loaded if the program has loaded OpenTelemetry
