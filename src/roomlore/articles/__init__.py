"""Reads the articles that messages link to."""
