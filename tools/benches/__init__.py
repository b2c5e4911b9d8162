"""What tools/bench measures: a module for each subcommand."""
