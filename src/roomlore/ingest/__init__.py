"""Stores incoming messages once: cleaned, with their authors, and in one transaction with the follow-up work."""
