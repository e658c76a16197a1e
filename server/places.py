"""Where a reader of many sessions stands: `a:12,b:90`, the last number of each.

Knows ids and numbers alone. Bounded: sessions that are not loaded any more are forgotten first, the one that ended
longest ago before the others; a reader then gets such a session, loaded again, from the beginning of that load.
"""

from collections.abc import Collection, Iterator

MAX_PLACES = 1000  # some 30 KB: a client sends it back in a header, and a head of 64 KB is read
PATTERN = r"\d{8}-\d{6}-[a-z2-7]{6}:[0-9]{1,16}"
"""One place: the whole id of a session and a number."""


class Places:
    def __init__(self, given: str | None) -> None:
        """`given`: some of PATTERN, separated by commas."""
        self._seqs: dict[str, int] = {}
        for place in (given or "").split(","):
            if place:
                session, _, seq = place.partition(":")
                self._seqs[session] = int(seq)

    def __str__(self) -> str:
        return ",".join(f"{session}:{seq}" for session, seq in self._seqs.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self._seqs)

    def get(self, session: str) -> int | None:
        return self._seqs.get(session)

    def put(self, session: str, seq: int) -> None:
        self._seqs[session] = seq

    def ended(self, session: str) -> None:
        """The session is not loaded any more; its place is kept for when it is again."""
        if session in self._seqs:
            self._seqs[session] = self._seqs.pop(session)  # the last one now

    def keep_within_bound(self, needed: Collection[str]) -> None:
        """Forget places beyond MAX_PLACES, never one that is needed."""
        surplus = len(self._seqs) - MAX_PLACES
        if surplus > 0:
            for session in [one for one in self._seqs if one not in needed][:surplus]:
                del self._seqs[session]
