"""What agents do with what they remember: blocks of memories, answers worth remembering, notes given unasked."""
