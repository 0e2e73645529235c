"""What agents get: memories in prompts and rooms, advice on answering, relationships."""
