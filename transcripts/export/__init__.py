"""Floor 4: out again. Kept bytes into files."""
