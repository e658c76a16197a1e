"""Telephone numbers: found by how they are written or by the word before them, confirmed by phonenumbers.

Without a `+` and without such a word only two ways of writing count, which hardly anything else has.
"""

import re
from collections.abc import Iterator

from agentcore.guard.context import names_other_number
from agentcore.guard.page import Page, Span, apart

_EVERYWHERE = ("US", "GB", "DE", "ES", "FR", "PL", "IT")
_ENGLISH = ("US", "GB", "AU")
_GERMAN = ("DE", "AT", "CH")
_SPANISH = ("ES", "MX", "AR")
_FRENCH = ("FR", "BE")
_POLISH = ("PL",)
WORDS: tuple[tuple[str, bool, tuple[str, ...]], ...] = (
    # a word, whether it must stand alone, and where the numbers behind it are from
    ("phone", False, _EVERYWHERE),
    ("call", True, _ENGLISH),
    ("cell", True, _ENGLISH),
    ("mobile", True, (*_ENGLISH, *_FRENCH)),
    ("hotline", False, _EVERYWHERE),
    ("whatsapp", False, _EVERYWHERE),
    ("fax", True, _EVERYWHERE),
    ("tel", True, _EVERYWHERE),
    ("tél", True, _FRENCH),
    ("telefon", False, (*_GERMAN, *_POLISH, "IT")),
    ("handy", False, _GERMAN),
    ("mobil", True, _GERMAN),
    ("ruf", True, _GERMAN),
    ("rufnummer", False, _GERMAN),
    ("teléfono", False, _SPANISH),
    ("telefono", False, (*_SPANISH, "IT")),
    ("móvil", False, _SPANISH),
    ("celular", False, _SPANISH),
    ("llám", False, _SPANISH),
    ("llama", True, _SPANISH),
    ("cellulare", False, ("IT",)),
    ("téléphone", False, _FRENCH),
    ("portable", True, _FRENCH),
    ("appel", False, _FRENCH),
    ("zadzwoń", False, _POLISH),
    ("dzwoń", False, _POLISH),
    ("kom", True, _POLISH),
    ("komórk", False, _POLISH),
)
_NEAR_CHARS = 40
_NUMBER_CHARS = 48
MAX_CONFIRMED = 5_000
"""Candidates that the library is asked about in one text (40 us each, measured). Further ones count as they are: so
many numbers are no program text, and a text that is bad on purpose must not cost more."""

_INTERNATIONAL = re.compile(r"\+(?<![\w+]\+)[1-9](?:[ .()/-]{0,3}\d){6,16}(?!\d)")
_NATIONAL = re.compile(r"[(0-9](?<![\w+.(-].)(?:(?<=\()\d)?(?:[ .()/-]{0,2}\d){6,14}(?!\w)")
_AMERICAN = re.compile(r"\((?<![\w(]\()\d{3}\) ?\d{3}-\d{4}(?![\w-])")
_FRENCH_PAIRS = re.compile(
    r"0(?<![\w.]0)(?<!\w-0)(?<![0-9a-f]{2} 0)[1-9]([ .])\d\d(?:\1\d\d){3}(?![\w-]|[ .][0-9a-f]{2}\b)"
)
_GROUP_END = re.compile(r"[ .()/-]+\d+$")
_TRIES = 3  # a number, and with up to two groups of digits behind it that are something else


class Phones:
    def __init__(self) -> None:
        import phonenumbers  # noqa: F401 - what cannot be loaded is known before the first text

    def __call__(self, page: Page) -> Iterator[Span]:
        return apart(self._all(page))

    def _all(self, page: Page) -> Iterator[Span]:
        confirm = _Confirmations()
        for match in _INTERNATIONAL.finditer(page.text):
            yield from confirm.longest(match, (None,))
        for pattern, region in ((_AMERICAN, "US"), (_FRENCH_PAIRS, "FR")):
            for match in pattern.finditer(page.text):
                yield from confirm.longest(match, (region,), is_announced=False)
        for word, stands_alone, regions in WORDS:
            done = 0
            for end in _ends_of(word, page.lower, stands_alone):
                for match in _behind_word(page, max(end, done)):
                    done = match.end()
                    yield from confirm.longest(match, regions)


def _ends_of(word: str, text: str, stands_alone: bool) -> Iterator[int]:
    at = 0
    while (at := text.find(word, at)) >= 0:
        begin, at = at, at + len(word)
        if stands_alone and (text[begin - 1 : begin].isalpha() or text[at : at + 1].isalpha()):
            continue
        yield at


def _behind_word(page: Page, start: int) -> Iterator[re.Match[str]]:
    """The candidates near behind a word, each of them near behind the one before."""
    text = page.text
    while True:
        line_end = text.find("\n", start, start + _NEAR_CHARS)
        last_start = start + _NEAR_CHARS if line_end < 0 else line_end
        match = _NATIONAL.search(text, start, last_start + _NUMBER_CHARS)
        if match is None or match.start() >= last_start or names_other_number(page.lower[start : match.start()]):
            return
        yield match
        start = match.end()


class _Confirmations:
    """Asks the library, for one text: at most so often, and about the same number once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None, bool], bool] = {}

    def longest(
        self, match: re.Match[str], regions: tuple[str | None, ...], *, is_announced: bool = True
    ) -> Iterator[Span]:
        """The candidate, or as much of its beginning as is a number.

        `is_announced`: a `+` or a word says that it is a number of a telephone, not its form alone.
        """
        number = match[0]
        for _ in range(_TRIES):
            if any(self._is_number(number, region, is_announced) for region in regions):
                yield match.start(), match.start() + len(number)
                return
            shorter = _GROUP_END.sub("", number)
            if shorter == number:
                return
            number = shorter

    def _is_number(self, number: str, region: str | None, is_announced: bool) -> bool:
        key = (number, region, is_announced)
        if key not in self._known:
            if len(self._known) >= MAX_CONFIRMED:
                return True
            self._known[key] = _is_number(number, region, is_announced=is_announced)
        return self._known[key]


def _is_number(number: str, region: str | None, *, is_announced: bool) -> bool:
    import phonenumbers

    try:
        parsed = phonenumbers.parse(number, region)
    except phonenumbers.NumberParseException:
        return False
    if phonenumbers.is_valid_number(parsed):
        return True
    # Ranges that are kept for films and examples are no valid numbers: they count where they are written like one.
    is_written_out = not number[1:].isdigit() and number[0] in "+0("
    reason = phonenumbers.is_possible_number_with_reason(parsed)
    return is_announced and is_written_out and reason == phonenumbers.ValidationResult.IS_POSSIBLE
