//! Lifecycle states and the hooks that hold a pod back.
