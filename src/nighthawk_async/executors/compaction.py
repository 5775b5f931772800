"""Compaction of a step's conversation before a request that would outgrow its model's context.

    plan -> hooks and policies -> summary of older turns, if digests are not enough -> replace -> check

Loaded once a conversation has passed its threshold. Nothing changes before the summary has arrived.
"""

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

from ..errors import BudgetExceededError, HookError, StepRejectedError
from ..observation import using_node_writer
from ..parallel.nodes import begin_group, ended_group
from ..ports import Model
from ..prompt.room import MULTIMODAL_ITEM_TOKENS
from ..runtime.environment import get_environment
from ..runtime.policy import check_answer
from ..runtime.step_node import write_note
from ..tracing import note_named_event
from ..types.compaction import CompactionPlan, ResultDigest
from ..types.messages import AssistantMessage, Message, ToolResultsMessage
from ..types.model import ModelRequest
from .agent_protocol import AgentTask
from .compaction_plan import SUMMARY_TOKENS, compact, count_turns, plan_compaction
from .conversation import Conversation, text_of_tool, texts_of
from .errors import ContextWindowError
from .turn_summary import summarize

_LOGGER = logging.getLogger("nighthawk")


async def fitting_request(model: Model, task: AgentTask, request: ModelRequest, tokens: int) -> ModelRequest:
    """Return a request that fits the context of its model, with a compacted conversation if need be.

    Args:
        model: The model.
        task: The step.
        request: The request, with all messages that are sent so far.
        tokens: Its size.

    Raises:
        ContextWindowError: It cannot be made to fit.
        StepAbortedError: A hook ended the step.
        HookError: A hook or policy failed.
        ModelError: The summary of older turns failed.
        BudgetExceededError: A budget has no room for the summary, and the request does not fit without.
        ExecutionError: There is no summary.
    """
    conversation = task.conversation
    is_vetoed = False
    plan = best_plan(conversation, model.name, tokens)
    if plan is not None:
        reviewed = await _reviewed(plan)
        is_vetoed = reviewed is None
        if reviewed is not None:
            try:
                tokens = await _carry_out(model, task, request, reviewed)
            except BudgetExceededError as error:
                if tokens > conversation.room:
                    raise
                write_note(f"conversation not compacted: {error}")  # the request may be the last one
            request = replace(request, messages=tuple(conversation.sent))
    if tokens > conversation.room:
        check_size(task.step_id, conversation, model, request, is_vetoed=is_vetoed)
    return request


def best_plan(conversation: Conversation, model_name: str, tokens: int) -> CompactionPlan | None:
    """Plan with as many whole turns as the settings want, or with one if there is no room for more."""
    settings = conversation.compaction
    assert settings is not None
    plan: CompactionPlan | None = None
    for keep_turns in dict.fromkeys((settings.keep_turns, 1)):
        plan = plan_compaction(conversation, model_name=model_name, tokens=tokens, keep_turns=keep_turns)
        after = tokens if plan is None else plan.tokens_after
        if after <= conversation.room:
            return plan
    return plan


async def _reviewed(plan: CompactionPlan) -> CompactionPlan | None:
    """Return the plan as policies and hooks have changed it; None if one of them vetoes it."""
    for policy in get_environment().policies.overriding["before_compaction"]:
        try:
            answer = await policy.before_compaction(plan)
        except StepRejectedError as error:
            write_note(f"compaction vetoed: {error}")
            return None
        if answer is not None and answer is not plan:
            method = f"{type(policy).__qualname__}.before_compaction"
            check_answer(answer, CompactionPlan, method)
            plan = _changed(plan, answer, method)
    return plan


def _changed(plan: CompactionPlan, answer: CompactionPlan, method: str) -> CompactionPlan:
    """Return the plan with the texts of an answer.

    Raises:
        HookError: The answer digests other results, or summarises without messages to summarise.
    """
    planned = set(map(_place, plan.digests))
    if not planned.issuperset(map(_place, answer.digests)):
        raise HookError(f"{method} added digests; it may change texts and leave digests out", hook=method)
    if answer.summary is not None and not plan.summarized:
        raise HookError(f"{method} set a summary, but no messages are to be summarised", hook=method)
    return replace(plan, digests=tuple(answer.digests), summary=answer.summary)


def _place(digest: ResultDigest) -> tuple[int, int]:
    return digest.message_index, digest.result_index


async def _carry_out(model: Model, task: AgentTask, request: ModelRequest, plan: CompactionPlan) -> int:
    """Compact the conversation, and return its size afterwards."""
    conversation = task.conversation
    node = begin_group("compaction")
    with ended_group(node):
        if plan.summarized and plan.summary is None:
            with nullcontext() if node is None else using_node_writer(node):
                summary = await summarize(
                    model,
                    task,
                    plan.summarized,
                    rate=plan.tokens / max(1, conversation.characters),
                    max_tokens=min(SUMMARY_TOKENS, plan.context_window // 10),
                )
            plan = replace(plan, summary=summary)
        tokens = compact(conversation, plan, len(request.tools))
        attributes = _attributes(plan, tokens)
        if node is not None:
            node.set_attributes(attributes)
    _report(task, plan, attributes, tokens)
    return tokens


def _attributes(plan: CompactionPlan, tokens: int) -> Mapping[str, int]:
    return {
        "nighthawk.compaction.context_window": plan.context_window,
        "nighthawk.compaction.tokens_before": plan.tokens,
        "nighthawk.compaction.tokens_after": tokens,
        "nighthawk.compaction.digests": len(plan.digests),
        "nighthawk.compaction.summarized_turns": count_turns(plan.summarized),
    }


def _report(task: AgentTask, plan: CompactionPlan, attributes: Mapping[str, int], tokens: int) -> None:
    turns = attributes["nighthawk.compaction.summarized_turns"]
    text = (
        f"conversation compacted: {plan.tokens:,} -> {tokens:,} of {plan.context_window:,} tokens "
        f"({len(plan.digests)} results shortened, {turns} turns summarised)"
    )
    write_note(text)
    note_named_event("nighthawk.compaction", attributes)
    _LOGGER.info("step %s: %s", task.step_id, text)


def check_size(
    step_id: str, conversation: Conversation, model: Model, request: ModelRequest, *, is_vetoed: bool = False
) -> None:
    """Refuse a request that cannot fit.

    Args:
        step_id: The step, for the error.
        conversation: Its conversation, which has a threshold.
        model: The model.
        request: The request.
        is_vetoed: Whether a hook or policy vetoed the compaction.

    Raises:
        ContextWindowError: It is larger than the context of its model.
    """
    window = conversation.context_window or 0
    parts = _sizes(conversation, request)
    tokens = sum(parts.values())
    if tokens <= window:
        return
    listed = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
    vetoed = " A hook or policy vetoed the compaction." if is_vetoed else ""
    raise ContextWindowError(
        f"step {step_id}: the request has {tokens:,} tokens, more than the {window:,} of {model.name}: "
        f"{listed}.{vetoed} It was not sent. Shorten what takes most: values in the prompt (context_limits), "
        "tools (deferred=True), tool results (tool_result_max_tokens), the past (transcript.trimmed); or "
        "choose a model with a larger context.",
        tokens=tokens,
        context_window=window,
        parts=parts,
    )


def _sizes(conversation: Conversation, request: ModelRequest) -> dict[str, int]:
    """The sizes of the parts of a request in tokens."""
    counter = conversation.counter
    assert counter is not None
    parts = {
        "system prompt": counter.count(request.system_prompt),
        "tools": sum(counter.count(text_of_tool(tool)) for tool in request.tools),
        "past": 0,
        "program": 0,
        "responses": 0,
        "tool results": 0,
        "messages": 0,
    }
    is_past = True
    for message in request.messages:
        is_past = is_past and message is not conversation.program
        media = sum(not isinstance(item, str) for item in message.content)
        size = sum(map(counter.count, texts_of(message))) + MULTIMODAL_ITEM_TOKENS * media
        parts["past" if is_past else _kind(conversation, message)] += size
    return parts


def _kind(conversation: Conversation, message: Message) -> str:
    if message is conversation.program:
        return "program"
    if isinstance(message, AssistantMessage):
        return "responses"
    return "tool results" if isinstance(message, ToolResultsMessage) else "messages"
