"""What tests of several modules share: cases, runs, comparisons, emulated devices."""
