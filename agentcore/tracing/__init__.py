"""Debug traces: what was sent to models, beside what the journal says of it."""
