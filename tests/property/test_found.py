"""Walks that broke something once, as Hypothesis shortened them: they are taken each time."""

from pathlib import Path
from typing import Any

import pytest

from tests.property.life import Life

FOUND: dict[str, list[tuple[Any, ...]]] = {
    "a prompt that came to steer was edited in the queue, and was handed to the next run as well": [
        ("prompt", "reject", "all"),
        ("prompt", "steer", "nothing"),
        ("prompt", "interrupt", "all"),
        ("change_the_queue", 0, "edit"),
    ],
    "a run that was killed before its first turn went on with the context of an earlier load": [
        ("prompt", "reject", "all"),
        ("model_answers", "all"),
        ("delete_and_load",),
        ("prompt", "reject", "kill"),
    ],
    "a prompt that failed was told again after a load, because a compaction had held it aside": [
        ("prompt", "reject", "all"),
        ("model_answers", "all"),
        ("prompt", "reject", "all"),
        ("model_fails", "auth", "all"),
        ("compact",),
    ],
    "calls that were to run side by side were announced after the run had been cancelled": [
        ("prompt", "reject", "all"),
        ("model_calls_tools", ["look", "look"], "nothing"),
        ("model_answers", "some"),
        ("prompt", "interrupt", "all"),
    ],
    "a call was announced in a run that had been cancelled before it began": [
        ("prompt", "reject", "all"),
        ("suspend", "all"),
        ("model_calls_tools", ["change", "change"], "all"),
        ("kill", 0, False),
        ("answer", 0, True, False, "all"),
        ("answer", 0, False, False, "nothing"),
        ("time_goes_on", 7),
        ("prompt", "interrupt", "all"),
    ],
    "a resumed run was cancelled before it went on, and its turn had no end": [
        ("prompt", "reject", "all"),
        ("stop_and_start",),
        ("resume", "nothing"),
        ("cancel", "all"),
    ],
    "a turn that began again behind a suspension was not counted at the next load": [
        ("prompt", "reject", "all"),
        ("stop_and_start",),
        ("resume", "nothing"),
        ("suspend", "all"),
    ],
    "a run that was cancelled during a sync took a message and began another turn": [
        ("prompt", "reject", "all"),
        ("prompt", "steer", "all"),
        ("model_answers", "nothing"),
        ("time_goes_on", 1),
        ("cancel", "all"),
    ],
}


@pytest.mark.parametrize("what", FOUND)
def test_a_walk_that_broke_something_once_breaks_nothing(tmp_path: Path, what: str) -> None:
    life = Life(tmp_path, unattended="wait", expires=False, reads=True)
    try:
        for name, *arguments in FOUND[what]:
            getattr(life, name)(*arguments)
            life.check()
        life.come_to_rest()
    finally:
        life.world.close()
