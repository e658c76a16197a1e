"""The endpoints, one file per subject; each handler parses, calls a live session, and answers."""
