"""Floor 2: the database. Only this floor writes rows."""
