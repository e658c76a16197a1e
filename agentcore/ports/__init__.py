"""The protocols between the rooms. The loop is given objects that satisfy them and knows nothing else."""
