//! Volume claims of pods.
