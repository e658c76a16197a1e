"""Making room in a context that is nearly full: a summary takes the place of what was said."""
