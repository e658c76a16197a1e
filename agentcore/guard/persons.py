"""Numbers that states give to people, confirmed by python-stdnum. Those whose form is common need their name nearby.

Some need it on the same line (no check digit), some anywhere in the text: a column of a table has its name on top.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentcore.guard.context import is_other_number
from agentcore.guard.page import Page, Span

_NEAR_CHARS = 40

# One pass for each first character: a set at the beginning of a pattern is what makes `re` fast. How one may not be
# preceded is said behind it, therefore.
_DIGITS = re.compile(
    r"[0-9](?<!\w[0-9])(?<!\w-[0-9])(?<![0-9][.,][0-9])(?:"
    r"(?P<ssn>[0-9]{2}-[0-9]{2}-[0-9]{4})|"
    r"(?P<bare_ssn>[0-9]{8}|[0-9]{2} [0-9]{2} [0-9]{4})|"
    r"(?P<nif>[0-9]{7}-?[A-Z])|"
    r"(?P<nir>(?: ?[0-9]{2}){2} ?(?:[0-9]{2}|2[AB])(?: ?[0-9]{3}){2} ?[0-9]{2})|"
    r"(?P<eleven>[0-9]{10}|[0-9] [0-9]{3} [0-9]{3} [0-9]{3})"
    r")(?![\w-]|[.,][0-9])"
)
_LETTERS = re.compile(
    r"[A-Z](?<!\w[A-Z])(?<!\w-[A-Z])(?:"
    r"(?P<nino>[A-Z] [0-9]{2} [0-9]{2} [0-9]{2} [A-D])|"
    r"(?P<bare_nino>[A-Z][0-9]{6}[A-D])|"
    r"(?P<nif>(?<=[XYZ])-?[0-9]{7}-?[A-Z])|"
    r"(?P<codice>[A-Z]{5}[0-9L-NP-V]{2}[A-EHLMPRST][0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{3}[A-Z])"
    r")(?![\w-])"
)


@dataclass(frozen=True, slots=True)
class Form:
    """What confirms a number, and which words it needs."""

    is_valid: Callable[[str], bool]
    near: re.Pattern[str] | None = None
    """Must stand before it on the same line."""
    anywhere: tuple[str, ...] = ()
    """One of them must stand somewhere in the text."""


class NationalIds:
    def __init__(self) -> None:
        self._forms = _forms()

    def __call__(self, page: Page) -> Iterator[Span]:
        forms = {
            name: [form for form in forms if not form.anywhere or any(word in page.lower for word in form.anywhere)]
            for name, forms in self._forms.items()
        }
        for pattern in (_DIGITS, _LETTERS):
            for match in pattern.finditer(page.text):
                if any(_is_it(page, match, form) for form in forms[match.lastgroup or ""]):
                    yield match.span()


def _is_it(page: Page, match: re.Match[str], form: Form) -> bool:
    return form.is_valid(match[0]) and _is_of_person(page, match.start(), form)


def _is_of_person(page: Page, start: int, form: Form) -> bool:
    if form.near is not None:
        return form.near.search(page.before(start, _NEAR_CHARS)) is not None
    return bool(form.anywhere) or not is_other_number(page, start)


def _forms() -> dict[str, tuple[Form, ...]]:
    """By the groups of the patterns."""
    from stdnum.de import idnr
    from stdnum.es import nif
    from stdnum.fr import nir
    from stdnum.it import codicefiscale
    from stdnum.pl import pesel
    from stdnum.us import ssn

    def is_bare_ssn(number: str) -> bool:
        return ssn.is_valid(number.replace(" ", "-"))

    def is_nir(number: str) -> bool:
        return nir.is_valid(number) and _has_french_month(number)

    return {
        "ssn": (Form(ssn.is_valid),),
        "bare_ssn": (Form(is_bare_ssn, near=re.compile(r"(?<![^\W_])ssn|social.?security")),),
        "nino": (Form(_is_nino),),
        "bare_nino": (Form(_is_nino, anywhere=_NINO_WORDS),),
        "nif": (Form(nif.is_valid),),
        "nir": (Form(is_nir),),
        "eleven": (
            Form(pesel.is_valid, anywhere=("pesel",)),
            Form(idnr.is_valid, anywhere=_TAX_ID_WORDS),
        ),
        "codice": (Form(codicefiscale.is_valid),),
    }


_NINO_WORDS = ("nino", "national insurance", "ni number")
_TAX_ID_WORDS = (
    *(f"steuer{between}{rest}" for between in ("", "-", " ", "_") for rest in ("id", "identifikation")),
    "steuerliche id",
    "idnr",
    "id-nr",
    *(f"tax{between}id" for between in ("", "-", " ", "_")),
)


def _has_french_month(number: str) -> bool:
    """INSEE's months: 1 to 12, and 20 up where the month of birth is not known."""
    month = int(number.replace(" ", "")[3:5])
    return 1 <= month <= 12 or month >= 20


def _is_nino(number: str) -> bool:
    """HMRC's prefixes: letters that are not given out, and pairs that are kept for other offices."""
    first, second = number[0], number[1]
    if first in "DFIQUV" or second in "DFIOQUV":
        return False
    return number[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}
