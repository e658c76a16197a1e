"""What the server costs, each figure beside its baseline of the same minute. `python -m tests.benchmarks` runs all."""
