"""The words in front of a number: which kind of number it is, where its form alone does not say."""

import re

from agentcore.guard.page import Page

_NEAR_CHARS = 28
_OTHER = re.compile(
    r"(?<![^\W_])(?:order|ticket|issue|part|serial|tracking|invoice|ref|reference|commit|build|version|isbn|ean|"
    r"bestell\w*|artikel\w*|rechnung\w*|sendung\w*|serien\w*|vorgang\w*|auftrag\w*|"
    r"pedido|factura|expediente|referencia|env[ií]o|"
    r"commande|facture|dossier|référence|série|colis|"
    r"zam[oó]wieni\w*|faktur\w*|przesyłk\w*|"
    r"ordine|fattura|pratica|spedizione)(?![^\W_])"
)


def is_other_number(page: Page, start: int) -> bool:
    """Whether the words before a place say that it is the number of a thing: an order, a ticket, a part."""
    return _OTHER.search(page.before(start, _NEAR_CHARS)) is not None


def names_other_number(words: str) -> bool:
    return _OTHER.search(words) is not None
