"""Extracts memories from conversations, by rules or a language model, and stores them without duplicates."""
