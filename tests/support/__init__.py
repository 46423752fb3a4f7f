"""What tests of several modules share: cases, runs, comparisons, stand-ins for hardware."""
