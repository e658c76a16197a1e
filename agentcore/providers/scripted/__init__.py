"""A provider that plays a written script: for demos, tests and integrators; needs no key and no network."""
