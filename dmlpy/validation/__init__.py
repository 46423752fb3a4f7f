"""Whether descs are right: problems as they are told, the checks of a desc, and what each feature level supports."""
