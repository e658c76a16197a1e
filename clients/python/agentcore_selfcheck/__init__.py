"""Checks on this machine, without a key, what the server promises: `agentcore selfcheck`."""
