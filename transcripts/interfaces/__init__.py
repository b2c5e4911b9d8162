"""Floor 6: what people and programs call. Each speaks to Index only; this floor alone reads the environment and prints."""
