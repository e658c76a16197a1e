"""Files in which people tell agents about a project: which there are, what they import, and what is said of them."""
