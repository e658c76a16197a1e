"""Language servers: one for each language and project, shared by all sessions. See README.md."""
