"""What must be true of a journal whenever it is looked at, read off its lines without the server's own folds."""

import json
from collections.abc import Sequence
from typing import Any

STRIDE = 1_000_000  # the contract's step between loads


def check_journal(data: bytes) -> list[dict[str, Any]]:
    """Check the whole lines of a journal; return its events."""
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    events = [line for line in lines if "seq" in line]
    check_numbers(lines)
    check_pairs(events)
    check_once("done", [event["run_id"] for event in events if event["type"] == "done"])
    check_once("request", [event["request_id"] for event in events if event["type"] == "permission_request"])
    check_once("resolution", [event["request_id"] for event in events if event["type"] == "permission_resolved"])
    said = [event for event in events if event["type"] == "user_message"]
    check_once("message", [event["prompt_id"] for event in said if "prompt_id" in event])
    check_once("telling of a task", [task_id for event in said for task_id in event.get("task_ids", ())])
    updates = [(event["task_id"], event["state"]) for event in events if event["type"] == "task_update"]
    check_once("beginning of a task", [task_id for task_id, state in updates if state == "running"])
    check_once("end of a task", [task_id for task_id, state in updates if state not in ("running", "stopping")])
    check_once("result", [event["call_id"] for event in events if event["type"] == "tool_end"])
    return events


def check_numbers(lines: Sequence[dict[str, Any]]) -> None:
    """Numbers only grow, each load begins at a multiple of its own, and none lies outside of what was reserved."""
    last, reserved = -1, -1
    for line in lines:
        if line["type"] == "load":
            assert line["base"] % STRIDE == 0
            assert line["base"] > reserved
            last, reserved = line["base"], line["base"] + STRIDE - 1
        elif line["type"] == "reserve":
            reserved = line["until"]
        elif "seq" in line:
            assert last < line["seq"] <= reserved
            last = line["seq"]


def check_pairs(events: Sequence[dict[str, Any]]) -> None:
    """Every call has its result before anything else is said; only the last batch may still be open, and one whose
    run is suspended."""
    for agent in {event.get("agent") for event in events}:
        check_pairs_of([event for event in events if event.get("agent") == agent])


def check_pairs_of(events: Sequence[dict[str, Any]]) -> None:
    """The same of one agent: the main one, or a subagent."""
    still_open: set[str] = set()
    for event in events:
        is_end = event["type"] == "done" and event["stop_reason"] != "suspended"
        if event["type"] in ("user_message", "assistant_message") or is_end:
            assert not still_open, f"{event['type']} {event['seq']} while calls are open: {still_open}"
        if event["type"] == "assistant_message":
            still_open = {block["id"] for block in event["message"]["content"] if block["type"] == "tool_use"}
        elif event["type"] == "tool_end":
            still_open.remove(event["call_id"])


def check_once(what: str, names: Sequence[str]) -> None:
    assert len(names) == len(set(names)), f"more than one {what}: {sorted(names)}"


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def of_kind(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]
