"""From a trigger message to what an agent should read before it answers.

`replygraph` walks the room and says which messages belong and why, `builder` fits them into a token
budget, `render` writes them down for a person or a language model. Everything reads through a
`MessageSource`, so the store, an export and a live room serve alike.
"""
