"""Makes a tool's text safe for the transcript: no NUL, no broken UTF-8, no endless output."""

import re

OUTPUT_LIMIT_BYTES = 30_000  # the contract's cap of a result, where a tool declares no other
HARD_LIMIT_BYTES = 256 * 1024  # no tool may declare more


_UNSAFE = re.compile("[\x00\ud800-\udfff]")


def safe_text(text: str) -> str:
    """Replace what no JSON reader or model service takes: NUL and lone surrogates."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def cap_output(text: str, limit_bytes: int = OUTPUT_LIMIT_BYTES) -> tuple[str, bool]:
    """Keep head and tail of a result above the limit, with a marker between; also say whether it was cut.

    The marker names the original size in bytes and lines. Cuts never fall inside a UTF-8 character.
    """
    text = safe_text(text)
    raw = text.encode()
    limit = min(limit_bytes, HARD_LIMIT_BYTES)
    if len(raw) <= limit:
        return text, False
    half = limit // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[-half:].decode(errors="ignore")
    lines = text.count("\n") + 1
    marker = (
        f"\n[… {len(raw) - 2 * half:,} of {len(raw):,} bytes ({lines:,} lines in all) left out here;"
        " ask for a narrower part to see the rest …]\n"
    )
    return head + marker + tail, True
