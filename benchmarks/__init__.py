"""Scripts that measure speed; each says how it is run, from the root of the repository."""
