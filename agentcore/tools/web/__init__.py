"""The two tools that reach the network: a page by its address, and a search."""
