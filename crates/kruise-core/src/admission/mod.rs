//! What is let in: reviews as functions over values.
