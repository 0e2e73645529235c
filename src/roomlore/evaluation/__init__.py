"""Measures quality on conversations with known answers, so that a change is judged by figures and not by feel."""
