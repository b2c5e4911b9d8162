"""The migrations, shipped with the package. A published one is never edited."""
