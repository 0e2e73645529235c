"""Accepts what was said, once: cleaned, attributed, and in one transaction with the work it makes."""
