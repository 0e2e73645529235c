"""Measures how good Roomlore's answers are, on conversations with known answers. A tool beside the product."""
