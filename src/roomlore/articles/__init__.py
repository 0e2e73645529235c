"""Articles that messages link to: fetched with care, read as text."""
