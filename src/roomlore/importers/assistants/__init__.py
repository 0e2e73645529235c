"""Imports chats with assistants, and logs of agents."""
