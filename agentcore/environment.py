"""The environment that commands get: the user's own, without secrets and without what belongs to the server."""

import re
import sys
from collections.abc import Mapping

_SECRET = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|APIKEY|CUSTOM_HEADER|OTLP(?:_[A-Z]+)?_HEADER|(?:^|_)(?:KEY|PASS|PWD|AUTH|PAT))S?(?:_|$)",
    re.IGNORECASE,
)
_HAS_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]*@")
_HARMLESS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})  # two folders, and a socket that git needs
_OWN_PREFIX = "AGENTCORE_"
_INTERPRETER = ("VIRTUAL_ENV", "PYTHONHOME")


def command_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Copy `environ` without secrets, the server's own settings and the traces of its virtual environment.

    PATH is kept whole: a project may share the environment that the server was started from.
    """
    return {name: value for name, value in environ.items() if not _is_withheld(name, value)}


def _is_withheld(name: str, value: str) -> bool:
    if name.upper().startswith(_OWN_PREFIX):
        return True
    if name in _INTERPRETER:
        return value == sys.prefix
    if _HAS_PASSWORD.search(value):  # a proxy's or a database's address
        return True
    return name not in _HARMLESS and _SECRET.search(name) is not None
