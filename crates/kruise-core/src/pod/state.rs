//! What a pod is: active, ready, available, at which revision.
