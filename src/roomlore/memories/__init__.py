"""Extracts memories from conversations, by rules or by a language model, and stores each only once."""
