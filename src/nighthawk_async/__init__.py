"""Natural-language blocks in Python as structured-concurrency actors, on Trio or asyncio.

Packages by floor, lowest first; each imports only from lower floors (`tests/architecture/test_floors.py`):

    0  errors, pickling, types, secret_names, configuration, observation, tracing, executions, causes,
       sealed_attributes, sensitive_paths, system_calls, threads, backoff, lazy_exports, signatures,
       suggestions, process_marks, placements
    1  confined_files, shell_words, line_process, natural, prompt, wire, catalog, actors, parallel
    2  command_risks, ports, journal_ports, credentials, values, telemetry_settings
    3  kernel
    4  agent, policies, models, telemetry, observe, recording, runtime
    5  executors, coding_agents, compaction, transcripts, journal, sandbox, skills
    6  functions, runs, scopes, steps, hooks, human, oversight, resilience, library, asgi, mcp, evals,
       distributed, testing, cli, and this module

Exports are loaded on first use: a program that defines no budget, asks no person and starts no actor does not
import the code for these. Type checkers read `__init__.pyi`, which lists the same names.
"""

from .lazy_exports import LazyModule, attach_exports
from .tracing import offer_tracing

_load, __dir__, __all__ = attach_exports(
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

offer_tracing(LazyModule(f"{__name__}.telemetry.tracing"))  # loaded if the program has loaded OpenTelemetry


def __getattr__(name: str) -> object:
    """Load an export on first use; the version comes from the installed distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nighthawk-async")
    if name == "open_tasks":  # in a package that knows nothing of the mailboxes of tasks
        from importlib import import_module

        import_module(f"{__name__}.kernel.run")
    return _load(name)
