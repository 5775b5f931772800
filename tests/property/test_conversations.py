"""Random long conversations: what compaction may change, what it must not, and that the context is kept."""

from dataclasses import dataclass, replace

from hypothesis import Phase, given, settings, strategies as st

import nighthawk_async as nh
from nighthawk_async.agent.task import Conversation
from nighthawk_async.compaction.compaction import best_plan
from nighthawk_async.compaction.plan import compact
from tests.long_steps import COUNTER, size_of

WINDOW = 4_000

TOOLS = ("nh_eval", "nh_assign", "nh_exec", "read_file")
TEXTS = st.builds(
    lambda seed, length: " ".join(f"w{seed * 7 + number}" for number in range(length)),
    st.integers(0, 99),
    st.integers(0, 120),
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a turn, and its result."""

    tool: str
    target: str
    text: str
    has_medium: bool


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn of a conversation."""

    text: str
    calls: tuple[Call, ...]
    is_refused: bool
    has_reasoning: bool
    steering: str
    reports_usage: bool


CALLS = st.builds(
    Call,
    tool=st.sampled_from(TOOLS),
    target=st.sampled_from(("a", "b.c", "scratch")),
    text=TEXTS,
    has_medium=st.sampled_from((False, False, False, True)),
)
TURNS = st.builds(
    Turn,
    text=st.sampled_from(("", "I look.")),
    calls=st.lists(CALLS, max_size=3).map(tuple),
    is_refused=st.booleans(),
    has_reasoning=st.booleans(),
    steering=st.sampled_from(("", "", "", "", "", "Mind the fish.")),
    reports_usage=st.sampled_from((True, True, True, False)),
)


class Talk:
    """A conversation as a step leads it, and what its model was sent."""

    def __init__(self) -> None:
        self.conversation = Conversation(
            context_window=WINDOW,
            counter=COUNTER,
            compaction=nh.executors.Compaction(),
            output_tokens=400,
            write_names=("a", "b"),
        )
        self.all: list[nh.models.Message] = [nh.models.UserMessage(content=("The program.",))]
        assert isinstance(self.all[0], nh.models.UserMessage)
        self.conversation.begin("You run a block.", self.all[0])
        self.number = 0
        self.refusal = ""
        self.steered: list[nh.models.Message] = []
        self.answers: dict[str, str] = {}

    def request(self) -> nh.models.ModelRequest:
        """The next request, compacted if due."""
        conversation = self.conversation
        before = tuple(conversation.sent)
        request = nh.models.ModelRequest(system_prompt="You run a block.", messages=before)
        plan = None
        if conversation.may_be_due(request):
            tokens = nh_run(conversation, request)
            if conversation.threshold is not None and tokens > conversation.threshold:
                plan = best_plan(conversation, "some:model", tokens)
        if plan is not None:
            compact(conversation, replace(plan, summary="A summary."), 0)
        elif before:
            assert tuple(conversation.sent) == before
        return replace(request, messages=tuple(conversation.sent))

    def take(self, turn: Turn) -> None:
        """Add a turn."""
        if turn.steering:
            message = nh.models.UserMessage(content=(f"{turn.steering} {self.number}",))
            self.steered.append(message)
            self._add(message, is_kept=True)
        request = self.request()
        self.check(request)
        usage = nh.Usage(requests=1, input_tokens=size_with_media(request), output_tokens=30)
        self.number += 1
        named = [(f"c{self.number}_{index}", call) for index, call in enumerate(turn.calls)]
        calls = [
            nh.models.ToolCall(id=name, name=call.tool, arguments=f'{{"target_path": "{call.target}"}}')
            for name, call in named
        ]
        if turn.is_refused and calls:
            calls.append(nh.models.ToolCall(id=f"o{self.number}", name="nh_outcome", arguments="{}"))
        content = nh.models.ProviderContent(protocol="p", items=({"signature": self.number},))
        response = nh.models.AssistantMessage(
            text=turn.text,
            tool_calls=tuple(calls),
            provider_content=content if turn.has_reasoning else None,
        )
        self.all.append(response)
        self.conversation.add_response(response, usage if turn.reports_usage else None, 0)
        self._answer(turn, calls, named)

    def _answer(self, turn: Turn, calls: list[nh.models.ToolCall], named: list[tuple[str, Call]]) -> None:
        results = [
            nh.models.ToolResult(
                call_id=name,
                name=call.tool,
                content=(f"{name} gave {call.text}", *([MEDIUM] if call.has_medium else [])),
            )
            for name, call in named
        ]
        for name, call in named:
            if call.tool == "nh_assign" and call.target != "scratch":
                self.answers.pop(call.target, None)
                self.answers[call.target] = f"{name} gave {call.text}"
        if turn.is_refused:
            self.refusal = f"refused {self.number}"
        if not calls and not turn.is_refused:
            return  # the provider paused, and goes on in the next response
        if not calls:
            self._add(nh.models.UserMessage(content=(f"refused {self.number}",)), is_refusal=turn.is_refused)
            return
        if turn.is_refused:
            results.append(
                nh.models.ToolResult(
                    call_id=f"o{self.number}", name="nh_outcome", content=(self.refusal,), is_error=True
                )
            )
        self._add(nh.models.ToolResultsMessage(results=tuple(results)), is_refusal=turn.is_refused)

    def _add(self, message: nh.models.Message, *, is_kept: bool = False, is_refusal: bool = False) -> None:
        self.all.append(message)
        if is_refusal:
            self.conversation.add_refusal(message)
        else:
            self.conversation.add(message, is_kept=is_kept)

    def check(self, request: nh.models.ModelRequest) -> None:
        """What holds for every request."""
        messages = request.messages
        assert self.conversation.messages == self.all
        assert messages[0] is self.all[0]
        check_pairs(messages)
        check_order(messages, self.all)
        assert [each for each in messages if each in self.steered] == self.steered
        text = str(messages)
        assert self.refusal in text
        last = next(reversed(self.answers), None)
        assert all(answer in text for target, answer in self.answers.items() if target == last)
        assert size_with_media(request) <= WINDOW


MEDIUM = nh.ImageUrl(url="https://example.com/a.png")


def size_with_media(request: nh.models.ModelRequest) -> int:
    """The tokens of a request, with 300 for an image."""
    return size_of(request) + 300 * sum(
        not isinstance(item, str) for message in request.messages for item in message.content
    )


def nh_run(conversation: Conversation, request: nh.models.ModelRequest) -> int:
    """Count without an event loop: nothing has to be loaded, and nothing is long."""
    counting = conversation.count(request)
    try:
        counting.send(None)
    except StopIteration as done:
        return int(done.value)
    raise AssertionError


def check_pairs(messages: tuple[nh.models.Message, ...]) -> None:
    """Every call has its result in the next message, and every result its call."""
    for index, message in enumerate(messages):
        if isinstance(message, nh.models.AssistantMessage) and message.tool_calls:
            after = messages[index + 1]
            assert isinstance(after, nh.models.ToolResultsMessage)
            assert [each.call_id for each in after.results] == [call.id for call in message.tool_calls]
        if isinstance(message, nh.models.ToolResultsMessage):
            before = messages[index - 1]
            assert isinstance(before, nh.models.AssistantMessage)
            assert len(before.tool_calls) == len(message.results)


def check_order(messages: tuple[nh.models.Message, ...], everything: list[nh.models.Message]) -> None:
    """What is sent is a part of all messages, in order; responses are the same objects."""
    places = [
        index
        for message in messages
        for index, each in enumerate(everything)
        if message is each or is_shortened(message, each)
    ]
    assert places == sorted(places)
    for index in places:
        is_going_on = index and all(
            isinstance(each, nh.models.AssistantMessage) for each in everything[index - 1 : index + 1]
        )
        assert not is_going_on or index - 1 in places
    others = [message for message in messages if all(not is_same(message, each) for each in everything)]
    assert len(others) <= 1
    assert all("NH:SUMMARY" in str(message.content) for message in others)


def is_same(message: nh.models.Message, original: nh.models.Message) -> bool:
    return message is original or is_shortened(message, original)


def is_shortened(message: nh.models.Message, original: nh.models.Message) -> bool:
    """Whether a message has the results of another one, some of them shortened."""
    results = nh.models.ToolResultsMessage
    if message is original or not isinstance(message, results) or not isinstance(original, results):
        return False
    return [each.call_id for each in message.results] == [each.call_id for each in original.results]


COUNTER.load()


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(TURNS, min_size=10, max_size=60))
def test_random_conversations_keep_the_context_and_what_must_not_be_lost(turns: list[Turn]) -> None:
    talk = Talk()
    for turn in turns:
        talk.take(turn)
