"""Finds who answers whom in a room, and from that which messages are one conversation.

`names` finds whom a message addresses, `features` turns a message and those before it into numbers, `replymodel`
weighs them, `linker` goes through a room and gives each message the one it answers, `conversations` makes
conversations of that. Nothing here reads a database or asks a language model, and nothing looks at what comes later.
"""
