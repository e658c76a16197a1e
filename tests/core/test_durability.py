"""What `durability` of the settings makes a run wait for."""

import os
from pathlib import Path

import pytest

from tests.fakes import house, say

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("durability", "waits"), [("full", True), ("os", False)])
async def test_durability_says_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, waits: bool
) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(f'durability = "{durability}"\n')
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Hello."))
        await home.run(live, "go")
    assert bool(syncs) is waits
