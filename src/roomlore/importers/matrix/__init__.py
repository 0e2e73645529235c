"""Imports rooms of Matrix."""
