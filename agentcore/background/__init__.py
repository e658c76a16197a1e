"""Work of a session that outlives the run that began it: the tasks that go on, and what they print."""
