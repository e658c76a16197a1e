"""The built-in tools, each one object that satisfies the Tool port."""
