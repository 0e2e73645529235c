"""The Model Context Protocol: what rooms and memories tell a language model, through the eyes of one viewer."""
