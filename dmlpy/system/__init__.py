"""The process and its operating system, for every package: files, forks, Ctrl+C, garbage collection, lazy imports, lines over pipes."""
