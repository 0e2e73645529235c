"""How statements become memories: each kept once, and in its place among those that say something else."""
