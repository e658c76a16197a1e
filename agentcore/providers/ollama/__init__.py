"""The native API of Ollama: plain HTTP, one JSON object a line, and a window that we set ourselves."""
