"""Search: from a question to messages, or to an answer that cites its sources.

`operations.search` calls the steps in this order. Each module imports only `records` and the modules listed before it:

1. `query_parser` reads from the question who said it and when; `time_phrases` turns "last week" into a time range.
2. `lookup` resolves names and ids to participants, rooms and messages that the viewer may see.
3. `message_search` collects candidates by words and by vectors. PostgreSQL decides here what the viewer may see.
4. `ranking` scores candidates with their neighbours, and compares the best with the question token by token;
   `confidence` states how sure the search is that the answer is among them.
5. `threads` groups the messages into whole threads. For a search, this is the result.
6. `fallback_chain` answers from the first stage with good enough evidence: the room, memories (`memory_search`), the
   whole history, log files (`log_search`, `log_lines`). If no stage has it, the answer says that it is not known.
7. `quotes` writes the answer as quotations; `llm_answers` prompts a language model and validates what it writes.
"""
