//! Changing a running pod in place.
