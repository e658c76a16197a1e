"""The user's own commands and web addresses at the named moments of a run, as other agents' settings describe them."""
