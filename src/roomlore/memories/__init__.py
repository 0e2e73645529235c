"""Extracts memories from conversations, with the message model or a language model, and stores each only once."""
