"""Images and sounds that a model makes, sources that it cites, and refusals with their reasons."""

import pickle
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ExecutionError, RefusalError, TranscriptError
from nighthawk_async.models import Citation, ImageUrl, ModelCapabilities, Refusal
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

FIRST = nh.BinaryContent(data=b"\x89PNG first", media_type="image/png")
SECOND = nh.BinaryContent(data=b"\x89PNG second", media_type="image/png")
SOUND = nh.BinaryContent(data=b"RIFF", media_type="audio/wav")
ADDRESS = ImageUrl(url="https://images.example/1.png")
SOURCE = Citation(url="https://example.com", title="Example", text="a heron", start=0, end=7)
IMAGE_MODEL = ModelCapabilities(tools=False, default_transport="direct")


@nh.natural_function
async def draw(subject: str) -> nh.BinaryContent:
    image: nh.BinaryContent = FIRST
    """natural
    Draw <subject> and set <:image>.
    """
    return image


@nh.natural_function
async def returned(subject: str) -> nh.BinaryContent:
    """natural
    Draw <subject> and return the image.
    """
    raise AssertionError


@nh.natural_function
async def two(subject: str) -> tuple[nh.BinaryContent, nh.BinaryContent]:
    front: nh.BinaryContent
    back: nh.BinaryContent | None = None
    """natural
    Draw <subject> from both sides: <:front>, <:back>.
    """
    return front, back  # type: ignore[return-value]


@nh.natural_function
async def named(subject: str) -> tuple[nh.BinaryContent, str]:
    image: nh.BinaryContent
    name: str
    """natural
    Draw <subject>, set <:image> and <:name>.
    """
    return image, name


@nh.natural_function
async def all_of(subject: str) -> list[nh.BinaryContent]:
    images: list[nh.BinaryContent]
    """natural
    Draw <subject> often: <:images>.
    """
    return images


@nh.natural_function
async def address(subject: str) -> ImageUrl:
    image: ImageUrl
    """natural
    Draw <subject>: <:image>.
    """
    return image


@nh.natural_function
async def word(subject: str) -> str:
    """natural
    Return one word about <subject>.
    """
    raise AssertionError


def ended(**fields: Any) -> Any:
    return tool_call("nh_outcome", **fields)


async def result(function: Any, *answers: ModelResponse, **settings: Any) -> Any:
    model = ScriptedModel(list(answers), **settings)
    async with nh.run(model):
        value = await function("a heron")
        assert len(model.requests) == len(answers)
        return value


CASES: dict[str, tuple[Any, list[ModelResponse], Any]] = {
    "an image alone": (draw, [model_response(media=[SECOND])], SECOND),
    "an image with words": (draw, [model_response(text="Here it is.", media=[SECOND])], SECOND),
    "an image and the outcome": (
        draw,
        [model_response(ended(kind="pass"), text="Here.", media=[SECOND])],
        SECOND,
    ),
    "an image, and the outcome a turn later": (
        draw,
        [
            model_response(tool_call("nh_exec", code="1 + 1"), media=[SECOND]),
            model_response(ended(kind="pass")),
        ],
        SECOND,
    ),
    "a placeholder": (
        draw,
        [model_response(ended(kind="pass", bindings={"image": "attached"}), media=[SECOND])],
        SECOND,
    ),
    "no image keeps the value": (draw, [model_response(ended(kind="pass"))], FIRST),
    "an expression wins": (
        draw,
        [model_response(ended(kind="pass", expressions={"image": "image"}), media=[SECOND])],
        FIRST,
    ),
    "a returned image": (returned, [model_response(media=[SECOND])], SECOND),
    "a returned image and the outcome": (
        returned,
        [model_response(ended(kind="return"), media=[SECOND])],
        SECOND,
    ),
    "a return without an image is corrected": (
        returned,
        [model_response(ended(kind="return")), model_response(media=[SECOND])],
        SECOND,
    ),
    "two images": (two, [model_response(media=[FIRST, SECOND])], (FIRST, SECOND)),
    "beside data": (
        named,
        [model_response(ended(kind="pass", bindings={"name": "Ardea"}), media=[SECOND])],
        (SECOND, "Ardea"),
    ),
    "beside data, words alone are corrected": (
        named,
        [
            model_response(text="Here", media=[SECOND]),
            model_response(ended(kind="pass", bindings={"name": "Ardea"})),
        ],
        (SECOND, "Ardea"),
    ),
    "a list": (all_of, [model_response(media=[FIRST, SECOND])], [FIRST, SECOND]),
    "an address": (address, [model_response(media=[ADDRESS])], ADDRESS),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_variable_takes_an_image_that_the_model_made(name: str) -> None:
    function, answers, expected = CASES[name]
    assert await result(function, *answers) == expected


@pytest.mark.parametrize("function", [draw, returned])
async def test_a_model_without_tools_answers_with_an_image_alone(function: Any) -> None:
    """An answer that is only an image is no empty text: nothing is corrected."""
    model = ScriptedModel([model_response(media=[SECOND])], capabilities=IMAGE_MODEL)
    async with nh.run(model):
        assert await function("a heron") == SECOND
    (request,) = model.requests
    assert "image" in request.system_prompt.lower()


async def test_a_model_without_tools_gives_data_beside_an_image() -> None:
    answer = '{"result": {"kind": "pass", "bindings": {"name": "Ardea"}}}'
    answers = [model_response(text=answer, media=[SECOND])]
    assert await result(named, *answers, capabilities=IMAGE_MODEL) == (SECOND, "Ardea")
    late = [model_response(text=answer), model_response(text=answer, media=[SECOND])]
    assert await result(named, *late, capabilities=IMAGE_MODEL) == (SECOND, "Ardea")


async def test_the_conversation_holds_what_the_model_made_and_cites() -> None:
    answers = [
        model_response(
            tool_call("nh_exec", code="1"), text="a heron", media=[FIRST, ADDRESS], citations=[SOURCE]
        ),
        model_response(ended(kind="return", return_value="heron"), citations=[SOURCE]),
    ]
    seen: list[Any] = []
    hooks = nh.Hooks()
    hooks.on(nh.hooks.AfterModelRequest)(lambda event: seen.append(event.citations))
    model = ScriptedModel(answers)
    async with nh.run(model):
        with nh.scope(hooks=hooks):
            await word("birds")
        assert nh.citations() == (SOURCE,)
        transcript = nh.transcript()
    assert seen == [(SOURCE,), (SOURCE,)]
    sent = model.requests[1].messages[1]
    assert (sent.media, sent.citations) == ((FIRST, ADDRESS), (SOURCE,))  # type: ignore[union-attr]
    assert nh.Transcript.from_json(transcript.to_json()) == transcript
    shown = transcript.show()
    assert "[made image image/png, 10 bytes]" in shown
    assert "(cites) Example · https://example.com" in shown


async def test_citations_are_those_of_the_last_step_alone() -> None:
    def once(_request: Any) -> ModelResponse:
        return answers.pop()

    end = ended(kind="return", return_value="heron")
    answers = [model_response(end), model_response(end, citations=[SOURCE])]
    async with nh.run(ScriptedModel(once)):
        await word("birds")
        past = nh.transcript()
        with nh.scope(past=past):
            await word("fish")
        assert nh.citations() == ()


async def test_no_step_has_no_citations() -> None:
    with pytest.raises(TranscriptError, match=r"nighthawk_async\.citations"):
        nh.citations()


@pytest.mark.parametrize("capabilities", [None, IMAGE_MODEL])
async def test_a_refusal_is_an_error_with_its_category_and_explanation(capabilities: Any) -> None:
    refusal = Refusal(category="cyber", explanation="This looks like an attack.")
    model = ScriptedModel([model_response(text="I", refusal=refusal)], capabilities=capabilities)
    async with nh.run(model):
        with pytest.raises(RefusalError, match=r"\(cyber\): This looks like an attack") as caught:
            await word("birds")
    assert (caught.value.category, caught.value.explanation) == ("cyber", "This looks like an attack.")
    assert isinstance(caught.value, ExecutionError)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.category, copy.explanation, str(copy)) == ("cyber", refusal.explanation, str(caught.value))
