"""The scanner that comes with the server: all rules of this room, one after another."""

from collections.abc import Callable, Iterable, Sequence

from agentcore.guard import accounts, addresses, keys, logins, passwords
from agentcore.guard.page import Page, Span
from agentcore.guard.persons import NationalIds
from agentcore.guard.phones import Phones
from agentcore.guard.scanning import CARD, EMAIL, IBAN, KEY, NATIONAL_ID, PASSWORD, PHONE, PRIVATE_KEY, Finding

Rule = Callable[[Page], Iterable[Span]]
"""Spans that do not overlap, of the page's text."""


class BuiltIn:
    """Satisfies the Scanner port. Loads its libraries when it is made; has no state, so threads may share it."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """`known` are secrets that this process holds: found wherever they stand."""
        # What is surest comes first: what one rule found the next ones do not see.
        self._rules: tuple[tuple[str, Rule], ...] = (
            (KEY, keys.KnownSecrets(known)),
            (PRIVATE_KEY, keys.private_keys),
            (KEY, keys.keys),
            (KEY, passwords.Assigned(passwords.KEY_NAMES, is_password=False)),
            (PASSWORD, passwords.in_urls),
            (PASSWORD, logins.in_netrc),
            (PASSWORD, logins.in_commands),
            (PASSWORD, passwords.Assigned(passwords.PASSWORD_NAMES, is_password=True)),
            (PASSWORD, passwords.Assigned(passwords.SECRET_NAMES, is_password=False)),
            (KEY, passwords.Assigned(passwords.TOKEN_NAMES, is_password=False, must_be_random=True)),
            (EMAIL, addresses.emails),
            (IBAN, accounts.Ibans()),
            (CARD, accounts.Cards()),
            (NATIONAL_ID, NationalIds()),
            (PHONE, Phones()),
        )

    def scan(self, text: str) -> Sequence[Finding]:
        page, found = Page(text), list[Finding]()
        for kind, rule in self._rules:
            spans = list(rule(page))
            page.blank(spans)
            found += [Finding(*page.original(*span), kind) for span in spans]
        return sorted(found)
