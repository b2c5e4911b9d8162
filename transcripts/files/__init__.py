"""Floor 1: the JSONL files. No SQL, no environment, no printing."""
