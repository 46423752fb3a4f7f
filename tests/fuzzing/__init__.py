"""Programs that fuzz dmlpy with random and hostile inputs, one for each area: `python -m tests.fuzzing.files --seconds 60`.

Each is seeded, takes seconds or counts as arguments, and ends with a status other than 0 where a promise was broken. The fast tests run a
few tries of each; `-m slow` runs more.
"""
