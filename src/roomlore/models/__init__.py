"""Models: embeddings and language models, on this machine or behind HTTP."""
