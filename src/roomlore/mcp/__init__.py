"""The Model Context Protocol: rooms and memories for a language model, as one viewer sees them."""
