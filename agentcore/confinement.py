"""What the tools of the model and confined servers cannot see, and what is theirs to write. Values from settings."""

from pathlib import Path

from agentcore.app_config import AppConfig
from agentcore.mcp.targets import Confinement
from agentcore.ports.sandbox import Sandbox, SandboxProfile
from agentcore.settings.effective import Effective

# Credentials of the user's own tools; closed to every tool of the model wherever the roots lie.
_CREDENTIALS = (
    ".aws",
    ".azure",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh",
    ".terraform.d",
)


def hidden_from_tools(config: AppConfig) -> tuple[Path, ...]:
    """Resolved: the state of this server, and credentials. Touches the disk."""
    own = (config.data_dir, config.state_dir, config.config_dir, *config.hidden)
    return tuple(path.resolve() for path in (*own, *(config.home / name for name in _CREDENTIALS)))


def confinement_of(sandbox: Sandbox, config: AppConfig, effective: Effective) -> Confinement:
    """How servers that are run as commands are confined where they are to be: the same for all sessions of the same
    settings, so that they can share one. Touches the disk."""
    chosen = effective.choices.sandbox
    profile = SandboxProfile(
        writable=(*config.roots, *effective.additional_directories),
        hidden=hidden_from_tools(config),
        protected=tuple(sorted(effective.scripts)),
        has_network=chosen.network,
        domains=chosen.allowed_domains,
    )
    return Confinement(sandbox, profile)
