"""Where a reader of many sessions stands: `a:12,b:90`, the last number of each.

Knows ids, numbers and times alone. What is told of it is bounded, since a client sends it back in a header. A session
that is loaded and not named in it comes from the beginning of its load, and what was read before is dropped by its
number: so those are left out for which that costs least. Of sessions that are not loaded, the one that ended longest
ago goes first.

Where something was left out, the time stands in front (`@:1760000000000000`, microseconds). A session that is not named
and was loaded later may have been read in an earlier load: it comes from its very beginning. So nothing is lost.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest

MAX_PLACES = 1000  # some 30 KB: a head of 64 KB is read
_PLACE = r"[0-9]{8}-[0-9]{6}-[a-z2-7]{6}:[0-9]{1,16}"
CURSOR = rf"^((@:[0-9]{{1,16}},)?({_PLACE},)*{_PLACE})?$"
"""Whole ids of sessions, each with a number."""
_TIME = "@"
_UNLOADED, _UNREAD = 0.5, 1e18  # what it costs to leave such a session out, in events that are read again


class Places:
    def __init__(self, given: str | None) -> None:
        """`given`: one of CURSOR."""
        self._seqs: dict[str, int] = {}
        for place in (given or "").split(","):
            if place:
                session, _, seq = place.partition(":")
                self._seqs[session] = int(seq)
        self._given_at = self._seqs.pop(_TIME, None)
        self._given = frozenset(self._seqs)
        self._lacks = self._given_at is not None
        """Sessions were left out, now or before."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._seqs)

    def get(self, session: str) -> int | None:
        return self._seqs.get(session)

    def may_lack(self, loaded_at: float) -> bool:
        """Whether a session that has no place and was loaded at that Unix time may have had one."""
        return self._given_at is not None and _microseconds(loaded_at) > self._given_at

    def put(self, session: str, seq: int) -> None:
        self._seqs[session] = seq

    def ended(self, session: str) -> None:
        """The session is not loaded any more; its place is kept for when it is again."""
        if session in self._seqs:
            self._seqs[session] = self._seqs.pop(session)  # the last one now

    def forget(self, loaded: Collection[str]) -> None:
        """Forget sessions that are not loaded, beyond MAX_PLACES of them."""
        unloaded = [session for session in self._seqs if session not in loaded]
        for session in unloaded[: max(0, len(unloaded) - MAX_PLACES)]:
            del self._seqs[session]
            self._lacks = True

    def told(self, replays: Mapping[str, int], known_at: float) -> str:
        """The cursor: at most MAX_PLACES, unless more of those that were given must not be left out.

        `replays`: of each loaded session, how many events lie between the beginning of its load and its place; negative
        where the place is of an earlier load. `known_at`: the Unix time up to which all loaded sessions are in it.
        """
        left_out = self._left_out(len(self._seqs) - MAX_PLACES, replays)
        places = [f"{session}:{seq}" for session, seq in self._seqs.items() if session not in left_out]
        self._lacks = self._lacks or bool(left_out)
        if self._lacks and places:
            is_behind = any(replays.get(session, 0) < 0 for session in left_out)
            at = (self._given_at or 0) if is_behind else _microseconds(known_at)  # 0: all of them from their beginning
            places.insert(0, f"{_TIME}:{at}")
        return ",".join(places)

    def _left_out(self, count: int, replays: Mapping[str, int]) -> Collection[str]:
        """So many sessions, those that cost least; fewer where the others would lose something."""
        if count <= 0:
            return ()
        costs = {session: self._cost(session, replays.get(session)) for session in self._seqs}
        return {session for session in nsmallest(count, costs, key=costs.__getitem__) if costs[session] < math.inf}

    def _cost(self, session: str, replayed: int | None) -> float:
        if replayed is None:
            return _UNLOADED
        if replayed >= 0:
            return replayed
        return math.inf if session in self._given else _UNREAD  # without a place it came, and so it comes again


def _microseconds(at: float) -> int:
    return int(at * 1_000_000)
