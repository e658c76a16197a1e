"""LM Studio: Chat Completions, with what its native API tells about the models."""
