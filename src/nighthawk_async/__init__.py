"""Natural-language blocks in Python as structured-concurrency actors, on Trio or asyncio.

Packages by floor, lowest first; each imports only from lower floors (`tests/architecture/test_floors.py`):

    0  errors, pickling, types, secret_names, configuration, observation, tracing, executions, causes,
       sealed_attributes, sensitive_paths, system_calls, threads, backoff, lazy_exports, signatures,
       suggestions, process_marks, placements
    1  confined_files, shell_words, wrapped_commands, line_process, natural, prompt, wire, catalog,
       actors, parallel
    2  command_risks, ports, journal_ports, credentials, values, telemetry_settings
    3  kernel
    4  agent, policies, models, telemetry, observe, recording, runtime
    5  executors, coding_agents, compaction, transcripts, journal, sandbox, skills
    6  functions, runs, scopes, steps, hooks, human, oversight, resilience, library, asgi, mcp, evals,
       distributed, testing, cli, and this module

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
        credentials,
        distributed,
        errors,
        evals,
        executors,
        hooks,
        human,
        journal,
        library,
        mcp,
        models,
        observe,
        oversight,
        parallel,
        policies,
        resilience,
        runtime,
        skills,
        telemetry,
    )
    from .coding_agents.settings import ClaudeCodeCliSettings, ClaudeCodeSdkSettings, CodexSettings
    from .configuration import StepContextLimits, StepExecutorConfiguration, StepPromptTemplates
    from .errors import (
        BudgetExceededError,
        ConfigurationError,
        ExecutionError,
        ModelError,
        NaturalParseError,
        NighthawkError,
        ToolEvaluationError,
        ToolRegistrationError,
        ToolValidationError,
    )
    from .executors.agent import AgentStepExecutor
    from .functions import natural_function
    from .hooks import Hooks
    from .human import ask_user, request_approval
    from .journal.effects import once, repeatable
    from .kernel.context import StepContext
    from .kernel.environment import (
        get_current_step_actor,
        get_current_step_context,
        get_execution_ref,
        get_step_executor,
        get_usage_meter,
        resource,
    )
    from .kernel.policy import Policy
    from .kernel.progress import progress
    from .kernel.tool_sets import tool, tool_set
    from .kernel.tools import RunContext
    from .models.batched import batched
    from .parallel import current_task, deadline, open_tasks
    from .policies.budgets.budget import budget
    from .policies.budgets.terms import BudgetLimits
    from .policies.egress.egress import egress
    from .policies.partial_values import partial_values
    from .policies.permissions.permissions import permissions
    from .policies.permissions.rules import rule
    from .runs import run, start_run, start_run_sync
    from .sandbox.declaration import Sandbox
    from .scopes import scope
    from .steps import step, step_sync
    from .threads import blocking
    from .transcripts.citations import citations
    from .transcripts.transcript import Transcript, transcript
    from .types.execution import ExecutionRef, PartialValues
    from .types.json import JsonableValue
    from .types.messages import BinaryContent, ImageUrl
    from .types.native_tools import CodeExecution, FileSearch, UserLocation, WebSearch
    from .types.unset import unset
    from .types.usage import Usage
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
            "coding_agents.settings": ("ClaudeCodeCliSettings", "ClaudeCodeSdkSettings", "CodexSettings"),
            "configuration": ("StepContextLimits", "StepExecutorConfiguration", "StepPromptTemplates"),
            "errors": (
                "BudgetExceededError",
                "ConfigurationError",
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
            "human": ("ask_user", "request_approval"),
            "journal.effects": ("once", "repeatable"),
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
            "kernel.tool_sets": ("tool", "tool_set"),
            "kernel.tools": ("RunContext",),
            "models.batched": ("batched",),
            "parallel": ("current_task", "deadline", "open_tasks"),
            "policies.budgets.budget": ("budget",),
            "policies.budgets.terms": ("BudgetLimits",),
            "policies.egress.egress": ("egress",),
            "policies.partial_values": ("partial_values",),
            "policies.permissions.permissions": ("permissions",),
            "policies.permissions.rules": ("rule",),
            "runs": ("run", "start_run", "start_run_sync"),
            "sandbox.declaration": ("Sandbox",),
            "scopes": ("scope",),
            "steps": ("step", "step_sync"),
            "threads": ("blocking",),
            "transcripts.citations": ("citations",),
            "transcripts.transcript": ("Transcript", "transcript"),
            "types.execution": ("ExecutionRef", "PartialValues"),
            "types.json": ("JsonableValue",),
            "types.messages": ("BinaryContent", "ImageUrl"),
            "types.native_tools": ("CodeExecution", "FileSearch", "UserLocation", "WebSearch"),
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
    "BinaryContent",
    "BudgetExceededError",
    "BudgetLimits",
    "ClaudeCodeCliSettings",
    "ClaudeCodeSdkSettings",
    "CodeExecution",
    "CodexSettings",
    "ConfigurationError",
    "ExecutionError",
    "ExecutionRef",
    "FileSearch",
    "Hooks",
    "ImageUrl",
    "JsonableValue",
    "ModelError",
    "NaturalParseError",
    "NighthawkError",
    "PartialValues",
    "Policy",
    "RunContext",
    "Sandbox",
    "StepContext",
    "StepContextLimits",
    "StepExecutorConfiguration",
    "StepPromptTemplates",
    "ToolEvaluationError",
    "ToolRegistrationError",
    "ToolValidationError",
    "Transcript",
    "Usage",
    "UserLocation",
    "WebSearch",
    "actors",
    "asgi",
    "ask_user",
    "batched",
    "blocking",
    "budget",
    "citations",
    "credentials",
    "current_task",
    "deadline",
    "distributed",
    "egress",
    "errors",
    "evals",
    "executors",
    "get_current_step_actor",
    "get_current_step_context",
    "get_execution_ref",
    "get_step_executor",
    "get_usage_meter",
    "hooks",
    "human",
    "journal",
    "library",
    "mcp",
    "models",
    "natural_function",
    "observe",
    "once",
    "open_tasks",
    "oversight",
    "parallel",
    "partial_values",
    "permissions",
    "policies",
    "progress",
    "repeatable",
    "request_approval",
    "resilience",
    "resource",
    "rule",
    "run",
    "runtime",
    "scope",
    "shared",
    "skills",
    "start_run",
    "start_run_sync",
    "step",
    "step_sync",
    "telemetry",
    "tool",
    "tool_set",
    "transcript",
    "unset",
]

offer_tracing(LazyModule(f"{__name__}.telemetry.tracing"))  # loaded if the program has loaded OpenTelemetry
