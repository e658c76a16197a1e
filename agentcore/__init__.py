"""The agent as a library: the loop and what is layered around it. Knows no HTTP and no UI."""
