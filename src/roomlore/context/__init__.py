"""Context: what an agent reads before it answers a trigger message.

`operations.contexts` calls `builder.build`, which runs these steps:

1. `sources` gives the messages that the viewer may see: from the store, or from lists (a live room, an export).
2. `expansion` walks from the trigger over replies and neighbours in time, within `limits`, and states for each message
   why it was reached.
3. `threads` completes the threads of these messages, so that no answer is shown without its question.
4. `selection` fills the token budget (`tokens`) with whole threads, the most important first, and cuts long messages.
5. `records` are the result: labelled lines, what was left out and why, citations.

`builder.with_articles` adds the pages that the messages link to (`links`), and `builder.with_memory_section` adds the
memories of an agent (`memory_section`). `render` writes a context as text, or as messages for OpenAI and Anthropic.
"""
