"""The daemon: live sessions over HTTP and Server-Sent Events."""
