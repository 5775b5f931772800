"""The server's protocols and the library's codecs, written apart from each other, understand each other."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest, ReplyPacing, ReplyProtocol
from nighthawk_async.testing.model_server_anthropic import AnthropicReplies
from nighthawk_async.testing.model_server_chat import ChatReplies
from nighthawk_async.testing.model_server_google import GoogleReplies
from nighthawk_async.testing.model_server_responses import ResponsesReplies
from nighthawk_async.types.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import (
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from nighthawk_async.wire.sse import ServerSentEventDecoder

REASONS = ModelCapabilities(reasoning=True)
QUESTION = UserMessage(content=("What is it?",))

PAIRS = [
    pytest.param(OpenAIChatCodec, ChatReplies, id="openai-chat"),
    pytest.param(OpenAIResponsesCodec, ResponsesReplies, id="openai-responses"),
    pytest.param(AnthropicCodec, AnthropicReplies, id="anthropic"),
    pytest.param(GoogleCodec, GoogleReplies, id="google"),
]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    lambda name, arguments: ToolCall(id="", name=name, arguments=json.dumps(arguments, ensure_ascii=False)),
    st.sampled_from(["look", "end", "nh_eval"]),
    st.dictionaries(texts, values, max_size=3),
)
usages = st.builds(
    lambda rest, read, output, reasoning: Usage(
        requests=1,
        input_tokens=rest + read,
        cache_read_tokens=read,
        output_tokens=output + reasoning,
        reasoning_tokens=reasoning,
    ),
    *[st.integers(0, 10_000)] * 4,
)
replies = st.builds(
    ModelReply,
    text=texts,
    reasoning=texts,
    tool_calls=st.lists(calls, max_size=3).map(tuple),
    usage=usages,
    pacing=st.builds(ReplyPacing, fragment_characters=st.integers(1, 12)),
    fault=st.sampled_from([None, None, None, "no_call_ids", "duplicate_call_ids", "no_call_index"]),
)
EMPTY_ARGUMENTS_IN_PIECES = ModelReply(
    tool_calls=(ToolCall(id="", name="look", arguments="{}"),), pacing=ReplyPacing(fragment_characters=1)
)


@dataclass(kw_only=True)
class Heard:
    """What a client understands of a response."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    arguments: dict[int, str] = field(default_factory=dict[int, str])
    usage: Usage | None = None
    finished: ResponseFinished | None = None

    def take(self, event: ModelEvent) -> None:
        assert self.finished is None
        match event:
            case TextDelta():
                self.text += event.text
            case ReasoningDelta():
                self.reasoning += event.text
            case ToolCallArgumentsDelta():
                self.arguments[event.index] = self.arguments.get(event.index, "") + event.fragment
            case ToolCallCompleted():
                assert event.index == len(self.calls)
                self.calls.append(event.call)
            case UsageReported():
                self.usage = event.usage
            case ResponseFinished():
                self.finished = event
            case _:
                pass

    def message(self) -> AssistantMessage:
        assert self.finished is not None
        return AssistantMessage(
            text=self.text,
            reasoning=self.reasoning,
            tool_calls=tuple(self.calls),
            provider_content=self.finished.provider_content,
        )


def ask(codec: Codec, messages: list[Any], **options: Any) -> RecordedRequest:
    """The request that the codec sends."""
    request = ModelRequest(messages=tuple(messages), settings=options)
    encoded = codec.encode(request, model_name="tested", capabilities=REASONS)
    return RecordedRequest(
        method="POST",
        path="/v1" + encoded.path,
        headers=encoded.headers,
        content=encoded.body,
        body=json.loads(encoded.body),
    )


def hear(codec: Codec, protocol: ReplyProtocol, reply: ModelReply, request: RecordedRequest) -> Heard:
    """The server's reply as the codec understands it, streamed or whole as the request asks for it."""
    heard = Heard()
    if not protocol.is_streamed(request):
        for event in codec.decode_response(protocol.whole(reply, request)):
            heard.take(event)
        return heard
    lines, decoder = ServerSentEventDecoder(), codec.decoder()
    for data in protocol.stream(reply, request):
        for line_event in lines.feed(data):
            for event in decoder.feed(line_event):
                heard.take(event)
    for event in decoder.finish():
        heard.take(event)
    return heard


def check_heard(heard: Heard, reply: ModelReply, *, is_streamed: bool) -> None:
    assert heard.text == reply.text
    assert heard.reasoning == reply.reasoning
    assert [call.name for call in heard.calls] == [call.name for call in reply.tool_calls]
    told = [json.loads(call.arguments) for call in heard.calls]
    assert told == [json.loads(call.arguments) for call in reply.tool_calls]
    assert len({call.id for call in heard.calls} - {""}) == len(heard.calls)
    if is_streamed:
        assert [heard.arguments[place] for place in range(len(heard.calls))] == [
            call.arguments for call in heard.calls
        ]
    assert heard.usage == reply.usage
    assert heard.finished is not None
    assert heard.finished.reason == ("tool_calls" if reply.tool_calls else "stop")


def results_of(message: AssistantMessage) -> ToolResultsMessage:
    return ToolResultsMessage(
        results=tuple(
            ToolResult(call_id=call.id, name=call.name, content=("done",)) for call in message.tool_calls
        )
    )


@pytest.mark.parametrize(("codec", "protocol"), PAIRS)
@given(reply=replies, stream=st.booleans())
@example(reply=EMPTY_ARGUMENTS_IN_PIECES, stream=True)
def test_what_the_server_says_is_what_the_codec_hears(
    codec: type[Codec], protocol: type[ReplyProtocol], reply: ModelReply, stream: bool
) -> None:
    request = ask(codec(), [QUESTION], stream=stream)
    check_heard(hear(codec(), protocol(), reply, request), reply, is_streamed=stream)


@pytest.mark.parametrize(("codec", "protocol"), PAIRS)
@given(script=st.lists(replies.filter(lambda reply: bool(reply.tool_calls)), min_size=1, max_size=3))
def test_what_the_codec_sends_back_is_what_the_server_accepts(
    codec: type[Codec], protocol: type[ReplyProtocol], script: list[ModelReply]
) -> None:
    speaker, server = codec(), protocol()
    messages: list[Any] = [QUESTION]
    for reply in script:
        message = hear(speaker, server, reply, ask(speaker, messages)).message()
        messages += [message, results_of(message)]
        refused = server.check(ask(speaker, messages))
        assert refused is None, refused.text
