"""A typed Python client of the agent server, sync and async."""
