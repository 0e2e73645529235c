"""Imports exports of DiscordChatExporter: JSON, HTML and CSV."""
