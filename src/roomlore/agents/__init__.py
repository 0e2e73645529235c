"""Services for agents: memories injected into prompts and rooms, advice on whether to answer, and trust in people."""
