//! Conditions that keep a pod out of rotation.
