"""Skills and commands that people wrote for agents: found, listed, and turned into words for the model."""
