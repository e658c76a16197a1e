"""Finds personal data and secrets in what would enter a transcript, and rewrites or refuses it. Offline."""
