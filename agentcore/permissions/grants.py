"""The rules that are in force in one session: those of files, and those that a person granted; and taking them back."""

from collections.abc import Callable, Iterable, Iterator

from agentcore.origin import Origin
from agentcore.permissions.rulebook import EFFECTS, Rulebook
from agentcore.permissions.rules import SESSION, Rule, rule_id
from agentcore.session import StandingRule

_PROJECTS = "projects/"
"""How the origins of rules begin that hold for one project of the user's own."""


class Standing:
    """State of one session. `on_change` is told each session grant that is to be kept, or forgotten, for good."""

    def __init__(self, rules: Rulebook, granted: Iterable[Rule], on_change: Callable[[Rule, bool], None]) -> None:
        """`on_change(rule, is_granted)` may raise; then nothing has changed where a rule was to be forgotten."""
        self._of_files = rules
        self._granted = list(granted)
        self._on_change = on_change
        self._unsettled: dict[str, Rule] = {}

    @property
    def book(self) -> Rulebook:
        return self._of_files + Rulebook(allow=tuple(self._granted))

    def grant(self, call_id: str, rule: Rule, *, settled: bool) -> None:
        """Put an allow rule in force at once. Unless `settled`, it is kept only when the call has its result."""
        if rule not in self._granted:
            self._granted.append(rule)
        if not settled:
            self._unsettled[call_id] = rule

    def settle(self, call_id: str) -> None:
        rule = self._unsettled.pop(call_id, None)
        if rule is not None:
            self._on_change(rule, True)

    def adopt(self, rule: Rule) -> None:
        """An allow rule was written into a file of the user's: it is the file's from now on."""
        self._granted = [one for one in self._granted if str(one) != str(rule)]
        if rule not in self._of_files.allow:
            self._of_files = self._of_files + Rulebook(allow=(rule,))

    def revoke(self, session: str, wanted: str) -> bool:
        """Take a grant of this session back, by its id; whether there was one. Raises: what `on_change` raises."""
        for rule in self._granted:
            if rule_id("allow", rule, session) == wanted:
                self._on_change(rule, False)
                self._granted.remove(rule)
                self._unsettled = {call: one for call, one in self._unsettled.items() if one != rule}
                return True
        return False

    def drop(self, wanted: str) -> None:
        """An allow rule was taken out of a file: it is in force no more."""
        kept = tuple(rule for rule in self._of_files.allow if rule_id("allow", rule) != wanted)
        self._of_files = Rulebook(kept, self._of_files.ask, self._of_files.deny)

    def listed(self, session: str) -> Iterator[StandingRule]:
        yield from listed(self._of_files)
        for rule in self._granted:
            name = rule_id("allow", rule, session)
            yield StandingRule(
                id=name, effect="allow", rule=str(rule), scope="session", source=SESSION.name, session=session
            )


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
                }
            )


def is_of_project(origin: Origin) -> bool:
    return origin.is_shared or origin.name.startswith(_PROJECTS)
