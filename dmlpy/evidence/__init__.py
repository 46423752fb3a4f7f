"""Evidence of released programs, beyond DirectML's documentation: facts with their sources, and types that sources disagree about."""
