"""``./dev demo``: a whole site on one machine, jobs in neutral units on it, shown to a person."""
