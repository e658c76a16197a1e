"""Chat Completions: the protocol of every gateway and local server, in all the dialects that they speak."""
