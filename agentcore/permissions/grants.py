"""The rules that are in force in one session: those of files, and those that a person granted; and taking them back."""

import time
from collections.abc import Callable, Iterable, Iterator

from agentcore.origin import Origin
from agentcore.permissions.rulebook import EFFECTS, Rulebook
from agentcore.permissions.rules import SESSION, Rule, rule_id
from agentcore.session import StandingRule

_PROJECTS = "projects/"
"""How the origins of rules begin that hold for one project of the user's own."""


class Standing:
    """State of one session. `on_change` is told each session grant that is to be kept, or forgotten, for good."""

    def __init__(
        self,
        rules: Rulebook,
        granted: Iterable[Rule],
        on_change: Callable[[Rule, bool], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`on_change(rule, is_granted)` may raise; then nothing has changed where a rule was to be forgotten.

        `now` is Unix time: an allow rule that has expired is in force and listed no more.
        """
        self._of_files = rules
        self._granted = list(granted)
        self._on_change = on_change
        self._now = now
        self._unsettled: list[tuple[str, Rule]] = []
        """Grants of calls, by id, that have no result yet."""
        self._of_run = Rulebook()

    @property
    def book(self) -> Rulebook:
        return unexpired(self._of_files + Rulebook(allow=tuple(self._granted)) + self._of_run, self._now())

    def add_for_run(self, rules: Rulebook) -> None:
        """Put rules in force until the run ends; nothing of them is kept."""
        self._of_run += rules

    def end_run(self) -> None:
        """Forget what was in force for a run alone."""
        self._of_run = Rulebook()

    def grant(self, call_id: str, rule: Rule, *, settled: bool) -> None:
        """Put an allow rule in force at once. Unless `settled`, it is kept only when the call has its result."""
        self._granted = [one for one in self._granted if str(one) != str(rule)]  # the later word counts
        self._granted.append(rule)
        if not settled:
            self._unsettled.append((call_id, rule))

    def settle(self, call_id: str) -> None:
        settled = [rule for call, rule in self._unsettled if call == call_id]
        if settled:
            self._unsettled = [(call, rule) for call, rule in self._unsettled if call != call_id]
        for rule in settled:
            self._on_change(rule, True)

    def adopt(self, rule: Rule) -> None:
        """An allow rule was written into a file of the user's: it is the file's from now on."""
        self._granted = [one for one in self._granted if str(one) != str(rule)]
        files = self._of_files
        others = tuple(one for one in files.allow if (str(one), one.origin) != (str(rule), rule.origin))
        self._of_files = Rulebook((*others, rule), files.ask, files.deny)

    def revoke(self, session: str, wanted: str) -> bool:
        """Take a grant of this session back, by its id; whether there was one. Raises: what `on_change` raises."""
        for rule in self._granted:
            if rule_id("allow", rule, session) == wanted:
                self._on_change(rule, False)
                self._granted.remove(rule)
                self._unsettled = [(call, one) for call, one in self._unsettled if one != rule]
                return True
        return False

    def drop(self, wanted: str) -> None:
        """An allow rule was taken out of a file: it is in force no more."""
        kept = tuple(rule for rule in self._of_files.allow if rule_id("allow", rule) != wanted)
        self._of_files = Rulebook(kept, self._of_files.ask, self._of_files.deny)

    def listed(self, session: str) -> Iterator[StandingRule]:
        yield from listed(unexpired(self._of_files, self._now()))
        for rule in unexpired(Rulebook(allow=tuple(self._granted)), self._now()).allow:
            yield StandingRule(
                id=rule_id("allow", rule, session),
                effect="allow",
                rule=str(rule),
                scope="session",
                source=SESSION.name,
                session=session,
                expires_at=rule.expires_at,
            )


def unexpired(rules: Rulebook, now: float) -> Rulebook:
    """The rules that are in force at a time."""
    if all(rule.expires_at is None for rule in rules.allow):
        return rules
    kept = tuple(rule for rule in rules.allow if rule.expires_at is None or rule.expires_at > now)
    return Rulebook(kept, rules.ask, rules.deny)


def listed(rules: Rulebook) -> Iterator[StandingRule]:
    """The rules of files, as clients see them."""
    for effect in EFFECTS:
        for rule in rules.of(effect):
            scope = "project" if is_of_project(rule.origin) else "user"
            yield StandingRule.model_validate(
                {
                    "id": rule_id(effect, rule),
                    "effect": effect,
                    "rule": str(rule),
                    "scope": scope,
                    "source": rule.origin.name,
                    "expires_at": rule.expires_at,
                }
            )


def is_of_project(origin: Origin) -> bool:
    return origin.is_shared or origin.name.startswith(_PROJECTS)
