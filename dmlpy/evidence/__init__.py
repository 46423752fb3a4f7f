"""What released programs show of DirectML beyond its documentation: facts with their sources, and types that sources disagree about."""
