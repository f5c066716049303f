//! Which pod comes first: when some must go, and when some are updated.
