"""What files were before a run changed them, and the way back. Outsiders need `session` of this room alone."""
