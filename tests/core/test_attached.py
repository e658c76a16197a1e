"""What was shown is bounded: a conversation full of pictures goes on."""

from pathlib import Path

import pytest

from agentcore.attached import MAX_BYTES, MAX_FILES, Attached
from agentcore.events import Notice
from agentcore.messages import Block, Image, Message, ToolResult
from tests.fakes import house, say

pytestmark = pytest.mark.anyio


def image(number: int, size_bytes: int) -> Image:
    return Image(blob=f"{number:064x}", media_type="image/png", size_bytes=size_bytes, width=1, height=1)


def message(*content: Block) -> Message:
    return Message(id="m", role="user", content=content)


def shown(*images: Image) -> tuple[Attached, list[Message]]:
    attached, messages = Attached(), [message(one) for one in images]
    for one in messages:
        attached.add(one.content)
    return attached, messages


def test_what_fits_stays() -> None:
    attached, _ = shown(image(1, MAX_BYTES // 2), image(2, MAX_BYTES // 2))
    assert not attached.is_too_much


def test_the_oldest_go_first_and_half_a_request_stays_free() -> None:
    attached, messages = shown(*(image(number, 3_000_000) for number in range(9)))
    assert attached.is_too_much
    assert attached.leave_out(messages) == 6
    assert attached.left_out == {image(number, 0).blob for number in range(6)}
    assert not attached.is_too_much
    assert attached.size_bytes == 9_000_000


def test_many_small_ones_count_as_well_also_in_results() -> None:
    pictures = [image(number, 10) for number in range(MAX_FILES + 1)]
    messages = [message(ToolResult(call_id="c", content="", attachments=(one,))) for one in pictures]
    attached = Attached()
    for one in messages:
        attached.add(one.content)
    assert attached.is_too_much
    assert attached.leave_out(messages) == len(pictures) - MAX_FILES // 2


def test_a_picture_that_is_shown_again_stays() -> None:
    old, new = image(1, 10_000_000), image(2, 10_000_000)
    attached, messages = shown(old, new, old)
    assert attached.leave_out(messages) == 1
    assert attached.left_out == {new.blob}


async def test_a_session_goes_on_without_its_oldest_files_and_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(*(say("seen") for _ in range(9)))
        live = await home.session()
        for number in range(9):
            live.prompt("Look.", (image(number, 3_000_000),))
            await home.until_idle(live)
        last = home.provider.requests[-1]
        notices = [event for event in home.events(live) if isinstance(event, Notice)]
    assert [notice.code for notice in notices] == ["files_left_out"]
    with pytest.raises(KeyError):
        last.blob(image(0, 0).blob)
