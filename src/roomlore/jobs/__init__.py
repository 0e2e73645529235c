"""Work that follows from what was stored, done in the background and safe to interrupt at any instant."""
