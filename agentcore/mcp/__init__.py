"""The servers of tools (MCP) that all sessions share, and what each session sees of them."""
