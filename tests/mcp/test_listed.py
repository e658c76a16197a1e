"""Lists of servers: an entry is left out exactly where the SDK would refuse the whole list for it."""

import copy
from typing import Any

import pytest

from agentcore.mcp import listed
from agentcore.mcp.connection import connected, load_sdk
from agentcore.mcp.listed import LeftOut, leave_out
from agentcore.mcp.targets import Target
from agentcore.mcp.watched import Watch
from tests.mcp.serving import odd, sdk

OBJECT = {"type": "object"}
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
ENTRIES: dict[str, list[Any]] = {
    "tools": [
        {"name": "fine", "inputSchema": OBJECT},
        {"name": "more", "inputSchema": {**OBJECT, "required": ["a"], "properties": {"a": True, "b": {}}}, "x": 1},
        {"name": "required", "inputSchema": {**OBJECT, "required": [{}]}},
        {"name": "properties", "inputSchema": {**OBJECT, "properties": [1]}},
        {"name": "property", "inputSchema": {**OBJECT, "properties": {"a": []}}},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "none"},
        {"name": "hints", "inputSchema": OBJECT, "annotations": {"readOnlyHint": "often"}},
        {"name": "icons", "inputSchema": OBJECT, "icons": [{}]},
        {"name": 7, "inputSchema": OBJECT},
        {"inputSchema": OBJECT},
        7,
        None,
    ],
    "prompts": [
        {"name": "fine", "arguments": [{"name": "a", "required": True}]},
        {"name": "arguments", "arguments": 1},
        {"name": "argument", "arguments": [{}]},
        {"name": 7},
        [],
    ],
}
CASES = [(version, key, entry) for version in VERSIONS for key, entries in ENTRIES.items() for entry in entries]


def is_taken_by_the_sdk(version: str, key: str, entry: Any) -> bool:
    from mcp_types.methods import parse_server_result

    result = {key: [entry], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        parse_server_result(f"{key}/list", version, result)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("version", "key", "entry"), CASES)
def test_an_entry_is_left_out_where_the_sdk_would_refuse_all(version: str, key: str, entry: Any) -> None:
    fine = ENTRIES[key][0]
    result = copy.deepcopy({key: [fine, entry, fine]})
    left_out = leave_out(result, version)
    is_taken = is_taken_by_the_sdk(version, key, entry)
    assert result == {key: [fine, entry, fine] if is_taken else [fine, fine]}
    assert len(left_out) == (0 if is_taken else 1)


@pytest.mark.anyio
@pytest.mark.parametrize(("target", "version"), [(odd(), "2025-06-18"), (sdk(), "2026-07-28")])
async def test_the_version_that_counts_is_the_one_that_is_spoken(target: Target, version: str) -> None:
    load_sdk()
    watch = Watch()
    async with connected(target, lambda: None, watch):
        assert watch.version == version


def test_what_is_left_out_is_said_with_its_place_and_in_bounds() -> None:
    schema = {**OBJECT, "properties": {str(number): [] for number in range(60)}}
    entries = [{"name": "x" * 9999, "inputSchema": {**OBJECT, "properties": {"y" * 9999: []}}}, 7]
    assert leave_out({"tools": [*entries, {"name": "many", "inputSchema": schema}]}, None) == [
        LeftOut("tool", "x" * 200, "`" + ("inputSchema.properties." + "y" * 200)[:200] + "` makes no sense"),
        LeftOut("tool", None, "it makes no sense"),
        LeftOut("tool", "many", "it makes no sense"),
    ]


def test_no_more_is_looked_at_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "MAX_LISTED", 2)
    result: dict[str, Any] = {"tools": [7, *[ENTRIES["tools"][0]] * 5]}
    assert leave_out(result, None) == [LeftOut("tool", None, "it makes no sense")]
    assert result == {"tools": [ENTRIES["tools"][0]]}
