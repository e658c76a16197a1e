"""The Responses API of OpenAI, stateless: official SDK for client, auth and errors; bytes and items by our own hand."""
