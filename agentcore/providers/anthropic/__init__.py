"""The Messages API of Anthropic: official SDK for client, auth and errors; bytes and blocks by our own hand."""
