"""Imports the text of chats that WhatsApp exports."""
