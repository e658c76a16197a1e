"""Whether a command's failure looks like the sandbox's doing. A guess from its last words, and told as one."""

import re

from agentcore.ports.sandbox import SandboxProfile

TAIL_CHARS = 4000
"""A command says last why it failed."""
_DISK = re.compile(r"Read-only file system|\bEROFS\b|Device or resource busy|\bEBUSY\b", re.IGNORECASE)
_RIGHTS = re.compile(r"Operation not permitted|\bEPERM\b|Permission denied|\bEACCES\b", re.IGNORECASE)
_NETWORK = re.compile(
    r"Network is unreachable|\bENETUNREACH\b|Could not resolve|Temporary failure in name resolution|\bEAI_AGAIN\b"
    r"|Name or service not known|\bENOTFOUND\b|nodename nor servname|no such host|Couldn't connect to server"
    r"|Failed to connect to|connect(?:ion)?: connection refused|\bECONNREFUSED\b",
    re.IGNORECASE,
)
SETUP = re.compile(r"\Abwrap: .+", re.IGNORECASE)


def why_failed(printed: str, profile: SandboxProfile) -> str | None:
    if SETUP.match(printed):
        return (
            "The sandbox could not be set up for this command, so it did not run: if a folder changed while it was"
            " started, call again as before."
        )
    tail = printed[-TAIL_CHARS:]
    writable = "nothing can be written but /tmp" if profile.is_read_only else "only the project and /tmp can be written"
    if _DISK.search(tail):
        return f"This command ran in the sandbox, where {writable}, and protected places cannot."
    if not profile.has_network and _NETWORK.search(tail):
        if profile.domains:
            return (
                f"This command ran in the sandbox, which lets it reach {', '.join(profile.domains)} alone, by a proxy."
            )
        return "This command ran in the sandbox, which has no network."
    if _RIGHTS.search(tail):
        return f"This command ran in the sandbox, where {writable}: that may be the reason."
    return None
