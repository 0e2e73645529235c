"""Conversation memory for rooms full of people and agents."""
