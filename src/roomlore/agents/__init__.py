"""Services for agents: memories injected into prompts and rooms, advice on answering, relationships."""
