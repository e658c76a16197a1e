"""What git is told by its environment, so that the configuration of a repository does not decide it.

Git ranks `GIT_CONFIG_COUNT` and its kin above every file. What is said there holds for the commands that are started
with it and for all that these start, but for the commands that git itself runs in submodules.
"""

from collections.abc import Mapping

QUIET: Mapping[str, str] = {"core.fsmonitor": "false", "safe.bareRepository": "explicit"}
"""No program that watches the files runs at each look, and a folder among the files of a project is no repository: each
would run what came with the files, by a mere `git status`. Hooks and filters stay, since people rely on theirs."""


def with_git_settings(environ: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Copy `environ` with settings for git, behind those that it holds: of one key the last counts."""
    count = 0
    while f"GIT_CONFIG_KEY_{count}" in environ and f"GIT_CONFIG_VALUE_{count}" in environ:
        count += 1
    found = {**environ, "GIT_CONFIG_COUNT": str(count + len(values))}
    for number, (key, value) in enumerate(values.items(), count):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found
