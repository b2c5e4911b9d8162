"""Floor 3: questions. A connection in, frozen dataclasses out."""
