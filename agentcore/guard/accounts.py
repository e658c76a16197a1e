"""Bank accounts and payment cards, confirmed by their check digits."""

import re
from collections.abc import Iterator
from functools import cache

from agentcore.guard.context import is_other_number
from agentcore.guard.page import Page, Span, apart

_IBAN = re.compile(r"[A-Za-z](?<![A-Za-z0-9].)[A-Za-z][0-9]{2}(?=[ -]?[A-Za-z0-9])")
_SEPARATORS = re.compile(r"[ .-]")
_UNIT = re.compile(r"\d+")

_CARD = re.compile(
    r"[0-9](?<![A-Za-z0-9][0-9])(?<![0-9][.,-][0-9])(?:[0-9]{13,18}|"
    r"[0-9]{3}([ .-])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?|[0-9]{3}([ .-])[0-9]{6}\2[0-9]{4,5})"
    r"(?![A-Za-z0-9]|[.,-][0-9])"
)
_BRANDS = re.compile(
    r"4\d{15}(?:\d{3})?|"  # Visa; those of 13 digits are no longer issued
    r"(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|"  # Mastercard
    r"3[47]\d{13}|"  # American Express
    r"(?:6011|64[4-9]\d|65\d\d)\d{12,15}|"  # Discover
    r"(?:30[0-5]\d|36\d\d|3[89]\d\d)\d{10}|"  # Diners
    r"35(?:2[89]|[3-8]\d)\d{12}|"  # JCB
    r"62\d{14,17}|"  # UnionPay
    r"(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{12,15}|"  # Maestro
    r"220[0-4]\d{12}"  # Mir
)


class Ibans:
    def __init__(self) -> None:
        from stdnum import iban, numdb

        self._is_valid = iban.is_valid
        self._register = numdb.get("iban")
        self._lengths: dict[str, int | None] = {}

    def __call__(self, page: Page) -> Iterator[Span]:
        return apart(self._all(page.text))

    def _all(self, text: str) -> Iterator[Span]:
        for match in _IBAN.finditer(text):
            end = self._end(text, match.start())
            if end is not None:
                yield match.start(), end

    def _end(self, text: str, start: int) -> int | None:
        """Where the IBAN ends that begins here; None when there is none."""
        length = self._length(text[start : start + 2].upper())
        end = None if length is None else _end_after(text, start, length)
        if end is None or text[end : end + 1].isalnum():
            return None
        number = _SEPARATORS.sub("", text[start:end])
        # Without the library's lists of each country's banks: an account at a bank that it does not know is an account.
        return end if self._is_valid(number, False) else None

    def _length(self, country: str) -> int | None:
        """Characters of an IBAN of this country, by the library's register."""
        if country not in self._lengths:
            found = self._register.info(country + "00")
            structure = found[0][1].get("bban") if found else None
            size = None if structure is None else 4 + sum(map(int, _UNIT.findall(structure)))
            self._lengths[country] = size
        return self._lengths[country]


def _end_after(text: str, start: int, count: int) -> int | None:
    """Where so many letters and digits end, single separators between them; None where something else comes first."""
    match = _written(count).match(text, start)
    return None if match is None else match.end()


@cache
def _written(count: int) -> re.Pattern[str]:
    return re.compile(rf"(?:[A-Za-z0-9][ -]?){{{count - 1}}}[A-Za-z0-9]")


class Cards:
    def __init__(self) -> None:
        from stdnum import luhn

        self._is_valid = luhn.is_valid

    def __call__(self, page: Page) -> Iterator[Span]:
        for match in _CARD.finditer(page.text):
            number = _SEPARATORS.sub("", match[0])
            if _BRANDS.fullmatch(number) and self._is_valid(number) and not is_other_number(page, match.start()):
                yield match.span()
